// A file as text: UTF-8 or a sentence that says why not.

const BYTES_A_CHARACTER = 4;

export async function textOf(file: File, maxCharacters: number): Promise<string> {
  if (file.size > BYTES_A_CHARACTER * maxCharacters) {
    throw new Error(`“${file.name}” is too large: this server reads at most ${count(maxCharacters)} characters.`);
  }
  const text = decoded(new Uint8Array(await file.arrayBuffer()), file.name);
  const characters = [...text].length;
  if (characters > maxCharacters) {
    throw new Error(
      `“${file.name}” has ${count(characters)} characters; this server reads at most ${count(maxCharacters)}.`,
    );
  }
  return text;
}

export function decoded(bytes: Uint8Array, name: string): string {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const utf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
    throw new Error(
      utf16
        ? `“${name}” is UTF-16, not UTF-8: save it as UTF-8 first.`
        : `“${name}” is not a text file (UTF-8). Save a document as plain text first.`,
    );
  }
  if (text.includes("\0")) throw new Error(`“${name}” has NUL bytes: it is not a text file.`);
  if (!text.trim()) throw new Error(`“${name}” is empty: there is nothing to explain.`);
  return text;
}

function count(number: number): string {
  return number.toLocaleString("en");
}
