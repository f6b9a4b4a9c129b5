// Tokens of compiler texts, found line by line without a grammar.

import type { Language } from "../messages.ts";

const STRING = String.raw`(?<string>"(?:[^"\\]|\\.)*")`;
const NUMBER = String.raw`(?<number>(?<![\w.%])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)`;
const ELEMENT = String.raw`(?:pred|token|bf16|[suc]\d{1,3}|f\d{1,2}(?:e\d\w*)?)`;

const HLO = new RegExp(
  [
    String.raw`(?<comment>/\*.*?\*/|//.*$)`,
    STRING,
    String.raw`(?<type>\b${ELEMENT}\[[^\]]*\](?:\{[^}]*\})?)`,
    String.raw`(?<keyword>\b(?:ENTRY|ROOT|HloModule|FileNames|FunctionNames|FileLocations|StackFrames)\b)`,
    String.raw`(?<attribute>\b[a-z_]+(?==))`,
    String.raw`(?<op>(?<=[ )}\]])[a-z][a-z0-9\-]*(?=\())`,
    String.raw`(?<name>%[\w.\-$]+)`,
    NUMBER,
  ].join("|"),
  "g",
);

const MLIR = new RegExp(
  [
    String.raw`(?<comment>//.*$)`,
    STRING,
    String.raw`(?<type>\b(?:tensor|memref|vector|tuple)<[^>]*>|\b(?:[su]?i\d+|f\d+|bf16)\b)`,
    String.raw`(?<keyword>\b(?:module|func\.func|func\.return|return|public|private|attributes|loc)\b)`,
    String.raw`(?<op>\b(?:stablehlo|chlo|mhlo|sdy|func|mpmd|tpu|triton)\.[\w.]+|\bcall\b)`,
    String.raw`(?<attribute>#[\w.\-]+|\b[\w.]+(?= = [\[\dtf<#"]))`,
    String.raw`(?<name>[%@][\w.\-$#]+)`,
    NUMBER,
  ].join("|"),
  "g",
);

const JAXPR = new RegExp(
  [
    STRING,
    String.raw`(?<type>(?<=:)[A-Za-z_]\w*(?:<\w+>)?\[[^\]]*\](?:\{[^}]*\})?)`,
    String.raw`(?<keyword>\b(?:lambda|let|in)\b)`,
    String.raw`(?<op>(?<= = )[a-z_][\w\-]*)`,
    String.raw`(?<attribute>\b[a-z_]\w*(?==))`,
    NUMBER,
  ].join("|"),
  "g",
);

const LLVM = new RegExp(
  [
    String.raw`(?<comment>;.*$)`,
    STRING,
    String.raw`(?<keyword>\b(?:define|declare|target|source_filename|attributes|internal|private|global|constant|ret|br|label|switch|unreachable|to)\b)`,
    String.raw`(?<type>\b(?:i\d+|half|bfloat|float|double|ptr|void|label|metadata)\b|<\d+ x \w+>)`,
    String.raw`(?<op>(?<=^\s+|= |= tail |= musttail )[a-z][\w.]*)`,
    String.raw`(?<attribute>![\w.]+|#\d+)`,
    String.raw`(?<name>[%@][\w.\-$]+)`,
    NUMBER,
  ].join("|"),
  "g",
);

/** Tokens of assembly with a given comment syntax: addresses, instructions, registers and numbers. */
const assembly = (comment: string): RegExp =>
  new RegExp(
    [
      `(?<comment>${comment})`,
      String.raw`(?<string>"(?:[^"\\]|\\.)*"|'[^']*')`,
      String.raw`(?<keyword>^\s*\.?[\w.$<>\-]+:(?!\s*\S)|^\s*\.[a-z]\w*|\$region\d+)`,
      String.raw`(?<attribute>^\s*(?:0x)?[0-9a-f]+\s*(?:[A-Z]{2})?:|@!?%?U?P\w*)`,
      String.raw`(?<op>(?<=^\s*(?:(?:0x)?[0-9a-f]+\s*:\s+(?:\{ )?)?|= |; |\*/\s+|@!?%?U?P\w* )[A-Za-z][\w.:]*)`,
      String.raw`(?<name>%[\w.$]+|\b(?:[re]?[a-ds][ixp]|[xyz]mm\d+|U?R\d+|U?P\d|r\d+[dwb]?|[xwvq]\d+)\b)`,
      NUMBER,
    ].join("|"),
    "g",
  );

const BLOCK_COMMENT = String.raw`/\*.*?\*/`;
/** Comments where a semicolon ends a statement (PTX, SASS) or separates the slots of a TPU bundle. */
const SLASHES = `//.*$|${BLOCK_COMMENT}`;
/** Comments in inspector's disassembly for CPUs. */
const SEMICOLON = String.raw`;(?= ).*$`;

/** Locations and metadata at the ends of lines. The app shows them through links instead. */
export const DETAILS: Partial<Record<Language, RegExp>> = {
  hlo: /, (?:metadata|frontend_attributes|backend_config)=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\})*\}/g,
  mlir: / loc\((?:#[\w.]+|unknown|"(?:[^"\\]|\\.)*"(?:\([^()]*\))?)\)/g,
};

/** Patterns of the tokens of a line, by group: "op" is an operation, "name" a value, and so on. */
export const TOKENS: Partial<Record<Language, RegExp>> = {
  hlo: HLO,
  mlir: MLIR,
  jaxpr: JAXPR,
  llvm: LLVM,
  ptx: assembly(SLASHES),
  sass: assembly(SLASHES),
  llo: assembly(SLASHES),
  asm: assembly(SEMICOLON),
};

interface Operation {
  readonly name: string;
  /** The columns, as a half-open range. */
  readonly from: number;
  readonly to: number;
}

/** Yields the operations of a line. */
export function* operationsIn(text: string, language: Language): Generator<Operation> {
  const pattern = TOKENS[language];
  if (!pattern) return;
  for (const { groups, index } of text.matchAll(pattern)) {
    const name = groups?.["op"];
    if (name !== undefined) yield { name, from: index, to: index + name.length };
  }
}

/** Returns the operation of a line, such as `fusion`; "" for none. */
export function opcodeOf(text: string, language: Language): string {
  for (const { name } of operationsIn(text, language)) return name.slice(name.indexOf(".") + 1);
  return "";
}

/** Returns a line without locations and metadata. */
export function withoutDetails(text: string, language: Language): string {
  const details = DETAILS[language];
  return details ? text.replace(details, "") : text;
}
