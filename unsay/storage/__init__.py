"""SQLite and Postgres under LangGraph's two interfaces."""
