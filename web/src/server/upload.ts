// Reading a text file: UTF-8, or an error that says what is wrong.

const BYTES_PER_CHARACTER = 4;

export async function textOf(file: File, maxCharacters: number): Promise<string> {
  if (file.size > BYTES_PER_CHARACTER * maxCharacters) {
    throw new Error(`“${file.name}” is too large: this server accepts at most ${count(maxCharacters)} characters.`);
  }
  const text = decodeText(new Uint8Array(await file.arrayBuffer()), file.name);
  const characters = [...text].length;
  if (characters > maxCharacters) {
    throw new Error(
      `“${file.name}” has ${count(characters)} characters; this server accepts at most ${count(maxCharacters)}.`,
    );
  }
  return text;
}

export function decodeText(bytes: Uint8Array, name: string): string {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const utf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
    throw new Error(
      utf16
        ? `“${name}” is encoded as UTF-16. Save it as UTF-8 first.`
        : `“${name}” is not a text file in UTF-8. Save the document as plain text first.`,
    );
  }
  if (text.includes("\0")) throw new Error(`“${name}” contains NUL bytes and is not a text file.`);
  if (!text.trim()) throw new Error(`“${name}” is empty.`);
  return text;
}

/** A file name from a title: letters and digits, at most 40 characters, never empty. */
export function fileName(title: string, suffix: string): string {
  const words = title.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return `${[...words].slice(0, 40).join("").replace(/-+$/, "") || "explanation"}.${suffix}`;
}

function count(number: number): string {
  return number.toLocaleString("en");
}
