"""Files: reading, writing, and forms of operators in other opsets."""
