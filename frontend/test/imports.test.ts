// The imports among the modules of src: no circles, type-only imports included, and no unused exports.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, sep } from "node:path";
import { test } from "node:test";

/** Modules whose exports are used from outside: bundled entry points, and generated tables. */
const EXEMPT = new Set(["src/explorer.ts", "src/loader.ts", "src/page.ts", "src/messages.ts", "src/panes.ts"]);
/** `import ... from "x"`, `export ... from "x"`, `import "x"` and `import("x")`. */
const SPECIFIER = /\bfrom\s+"([^"]+)"|\bimport\s*\(?\s*"([^"]+)"/g;
const NAMED = /^import\s+(?:type\s+)?\{([^}]*)\}\s+from\s+"([^"]+)"/gm;
const NAMESPACE = /^import\s+(?:type\s+)?\*\s+as\s+\w+\s+from\s+"([^"]+)"/gm;
const EXPORT = /^export\s+(?:async\s+)?(?:abstract\s+)?(?:function\*?|class|const|interface|let|type)\s+(\w+)/gm;

type Modules = ReadonlyMap<string, string>;
type Imports = ReadonlyMap<string, readonly string[]>;

/** Returns the texts of the TypeScript modules in a folder, by path from `frontend/`. */
function modulesIn(folder: string): Map<string, string> {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  return new Map(files.map((file) => [posix(join(folder, file)), readFileSync(join(folder, file), "utf8")]));
}

function posix(path: string): string {
  return normalize(path).split(sep).join("/");
}

function resolved(module: string, specifier: string): string {
  return posix(join(dirname(module), specifier));
}

/** Returns the modules that each module imports. Packages and style sheets are left out. */
function importsOf(modules: Modules): Imports {
  const own = ([module, text]: readonly [string, string]): [string, string[]] => [
    module,
    [...text.matchAll(SPECIFIER)]
      .map(([, from, bare]) => resolved(module, from ?? bare!))
      .filter((m) => modules.has(m)),
  ];
  return new Map([...modules].map(own));
}

/** Returns the path of a circle, with the first module also at its end; null if there is none. */
function circleIn(imports: Imports): string[] | null {
  const done = new Set<string>();
  const visit = (module: string, path: readonly string[]): string[] | null => {
    const start = path.indexOf(module);
    if (start >= 0) return [...path.slice(start), module];
    if (done.has(module)) return null;
    for (const next of imports.get(module) ?? []) {
      const circle = visit(next, [...path, module]);
      if (circle) return circle;
    }
    done.add(module);
    return null;
  };
  for (const module of imports.keys()) {
    const circle = visit(module, []);
    if (circle) return circle;
  }
  return null;
}

/** Returns the exports of `modules`, as "module: name", that neither these nor `users` import. */
function unusedExports(modules: Modules, users: Modules): string[] {
  const used = new Set<string>();
  for (const [module, text] of [...modules, ...users]) {
    for (const [, names, specifier] of text.matchAll(NAMED))
      for (const name of names!.split(","))
        used.add(
          `${resolved(module, specifier!)}: ${
            name
              .trim()
              .replace(/^type\s+/, "")
              .split(/\s+as\s+/)[0]
          }`,
        );
    for (const [, specifier] of text.matchAll(NAMESPACE)) used.add(resolved(module, specifier!));
  }
  return [...modules].flatMap(([module, text]) =>
    EXEMPT.has(module) || used.has(module)
      ? []
      : [...text.matchAll(EXPORT)].map(([, name]) => `${module}: ${name}`).filter((each) => !used.has(each)),
  );
}

test("the modules of src import each other without circles", () => {
  const imports = importsOf(modulesIn("src"));
  assert.ok(imports.size > 100, `only ${imports.size} modules found`);
  assert.ok(imports.get("src/explorer.ts")!.includes("src/shell/view.ts"));
  const circle = circleIn(imports);
  assert.equal(circle, null, `import circle: ${circle?.join(" -> ")}`);
});

test("a circle is reported with its path, type-only and dynamic imports included", () => {
  const modules = new Map([
    ["src/a.ts", 'import { b } from "./lib/b.ts";\n'],
    ["src/lib/b.ts", 'import {\n  type C,\n  d,\n} from "./c.ts";\nimport "../styles/b.css";\n'],
    ["src/lib/c.ts", 'import type * as e from "./e.ts";\n'],
    ["src/lib/e.ts", 'import { Text } from "@codemirror/state";\ntype B = typeof import("./b.ts");\n'],
  ]);
  assert.deepEqual(circleIn(importsOf(modules)), ["src/lib/b.ts", "src/lib/c.ts", "src/lib/e.ts", "src/lib/b.ts"]);
  modules.set("src/lib/e.ts", "");
  assert.equal(circleIn(importsOf(modules)), null);
});

test("every export of src is imported", () => {
  assert.deepEqual(unusedExports(modulesIn("src"), modulesIn("test")), []);
});

test("an export without an import is reported", () => {
  const modules = new Map([
    ["src/a.ts", 'import { type B, c as d } from "./b.ts";\nimport type * as e from "./e.ts";\n'],
    ["src/b.ts", "export type B = 1;\nexport const c = 1;\nexport function f(): void {}\nexport class G {}\n"],
    ["src/e.ts", "export type H = 1;\n"],
  ]);
  const users = new Map([["test/b.test.ts", 'import { f } from "../src/b.ts";\n']]);
  assert.deepEqual(unusedExports(modules, users), ["src/b.ts: G"]);
});
