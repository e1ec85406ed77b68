"""The five nodes of the graph, one file each. They are no public functions: a node needs the graph's services.

`graph.as_node` puts the whole agent into a graph of your own.
"""
