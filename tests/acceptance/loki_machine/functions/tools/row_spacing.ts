/**
 * Say how far apart rows are to be.
 * @param crop - The crop.
 * @param width - How wide the bed is, in metres.
 */
export function run(crop: string, width: number, tight?: boolean): string {
  return `${crop}: ${Math.floor(width / (tight ? 0.2 : 0.3))} rows`;
}
