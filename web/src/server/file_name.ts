// Names of files that are downloaded.

/** A file name from a title: letters and digits, at most 40 characters, never empty. */
export function fileName(title: string, suffix: string): string {
  const words = title.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return `${[...words].slice(0, 40).join("").replace(/-+$/, "") || "explanation"}.${suffix}`;
}
