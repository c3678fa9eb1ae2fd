"""Many strategies, one text: each is asked at the same time, the best of what they give is fitted under one budget."""
