collect_ignore = ["crash_child.py"]
