def tap(frame: int, hammer: str = "small") -> dict:
    """Tap a frame and listen.

    Args:
        frame: its number
        hammer: with which hammer
    """
    return {"frame": frame, "sound": "hollow" if frame % 2 else "full", "hammer": hammer}
