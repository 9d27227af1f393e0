"""What the server does before and around pages: origins, browsers, startup and shutdown."""
