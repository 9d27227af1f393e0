"""The app: `screens/` has one Streamlit page per stage of the work, `widgets/` their shared elements, `state/` the
state of a session, `server/` what the server does before and around pages.
"""
