"""How well knowledge is found: questions with what they expect, measures, comparisons that know chance, reports, tuning."""
