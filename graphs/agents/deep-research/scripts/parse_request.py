"""Take the prompt for the topic; ask for one where it is blank."""

from node import read_state, text_of, write


def main() -> None:
    """Print the topic, or where to ask for it."""
    topic = text_of(read_state(), "initial_prompt").strip()
    if topic:
        write(topic=topic)
    else:
        write(_next="ask_topic")


main()
