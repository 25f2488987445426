// @env DEMO_GREETING  Reaches the tool from the worker's environment.

interface Options {
  depth: number;
}

/**
 * Return the arguments as they arrive, and the variables that describe the call.
 *
 * A living reference for the authors of tools; of no use to a model.
 *
 * @param text - Any text.
 * @param untyped - Taken for a text.
 * @param named - A type of its own is taken for a text.
 * @param count - A number.
 * @param flag - True or false.
 * @param colour - One of two words.
 * @param words - Several texts.
 * @param numbers - Several numbers.
 * @param nullable - May be left out, and is undefined then.
 * @param maybe - May be left out as well.
 * @param fallback - Has a default.
 */
export async function run(
  text: string,
  untyped,
  named: Options,
  count: number,
  flag: boolean,
  colour: "red" | "green",
  words: string[],
  numbers: Array<number>,
  nullable: number | null,
  maybe?: string,
  fallback: string = "as declared",
): Promise<unknown> {
  const given = { text, untyped, named, count, flag, colour, words, numbers, nullable, maybe, fallback };
  return { arguments: given, environment: environment() };
}

function environment(): Record<string, string | undefined> {
  const shown = (name: string): boolean =>
    name.startsWith("LLM_") || name === "AUTO_CONFIRM" || name === "DEMO_GREETING";
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => shown(name)));
}
