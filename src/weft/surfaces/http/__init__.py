"""weft as a service: shapes (requests and answers), context, knowledge and operations (routes), access (keys), guard (every
request), problems (errors), app (all together), serve (the process)."""
