"""What the tests talk about."""

LISTS = "What is a list comprehension?"
NESTED = "Can a list comprehension be nested?"
ON_LISTS = "A list comprehension builds a list in a single expression from another iterable."
ON_NESTED = "Yes, a list comprehension can be nested, in the order in which the loops would stand."
CARS = "Buy a car. A list comprehension has four wheels, as every list comprehension does."
ANSWERS = {LISTS: ON_LISTS, NESTED: ON_NESTED}
DRAFTS = {LISTS: ON_LISTS, NESTED: [CARS, ON_NESTED]}
SCORES = {"Buy a car": 0.1}
