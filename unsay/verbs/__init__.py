"""How an order is carried out in a graph."""
