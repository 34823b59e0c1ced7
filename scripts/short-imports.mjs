// Shortens the names by which the browser's half calls the browser: a third of what the names of the build tool take is a
// hash that nothing needs any more and that does not compress. Usage: short-imports.mjs DIRECTORY-OF-THE-SITE'S-PACKAGE
//
// A name stands twice: in the import section of the wasm (https://webassembly.github.io/spec/core/binary/modules.html) and
// as a key of the object that the script gives it. Both are written anew, or neither. The files keep their names, which tell
// what they were before: browsers keep them for ever, so that another way of shortening needs other names.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const HASHED = /^(__wbg_\w+)_[0-9a-f]{16}$/;
const IMPORTS = 2;

const dir = process.argv[2];
const only = (pattern) => {
  const found = readdirSync(dir).filter((name) => pattern.test(name));
  if (found.length !== 1) throw new Error(`${dir} has ${found.length} files ${pattern}, not one`);
  return join(dir, found[0]);
};
const wasmFile = only(/^groundwork(\.[\w-]+)?\.wasm$/);
const scriptFile = only(/^groundwork(\.[\w-]+)?\.js$/);

const wasm = readFileSync(wasmFile);
let script = readFileSync(scriptFile, 'utf8');
let at = 8;

/** An unsigned number as wasm writes it (LEB128). */
function number() {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = wasm[at++];
    value += (byte & 127) * 2 ** shift;
    if (byte < 128) return value;
  }
}

function written(value) {
  const bytes = [];
  do {
    bytes.push((value % 128) | (value >= 128 ? 128 : 0));
    value = Math.floor(value / 128);
  } while (value > 0);
  return Buffer.from(bytes);
}

function name() {
  const length = number();
  at += length;
  return wasm.toString('utf8', at - length, at);
}

const named = (text) => Buffer.concat([written(Buffer.byteLength(text)), Buffer.from(text)]);

/** Passes over what an import is: a function, table, memory, global or tag. */
function description() {
  const kind = wasm[at++];
  if (kind === 1) at++;
  if (kind === 1 || kind === 2) {
    const limits = number();
    number();
    if (limits & 1) number();
  } else if (kind === 3) {
    at += 2;
  } else if (kind === 4) {
    at++;
    number();
  } else {
    number();
  }
}

const short = new Map();
const taken = new Set();
function shortened(text) {
  const found = HASHED.exec(text);
  // A name that does not stand in the script exactly once is left as it is.
  if (!found || script.split(text).length !== 2) return text;
  let wanted = found[1];
  for (let n = 2; taken.has(wanted) || script.includes(`${wanted}:`); n++) wanted = `${found[1]}${n}`;
  taken.add(wanted);
  short.set(text, wanted);
  return wanted;
}

const parts = [wasm.subarray(0, 8)];
while (at < wasm.length) {
  const begin = at;
  const id = wasm[at++];
  const size = number();
  const end = at + size;
  if (id === IMPORTS) {
    const count = number();
    const section = [written(count)];
    for (let n = 0; n < count; n++) {
      const module = name();
      const field = name();
      const from = at;
      description();
      section.push(named(module), named(shortened(field)), wasm.subarray(from, at));
    }
    const body = Buffer.concat(section);
    parts.push(Buffer.from([IMPORTS]), written(body.length), body);
  } else {
    parts.push(wasm.subarray(begin, end));
  }
  at = end;
}
if (at !== wasm.length) throw new Error(`${wasmFile} ends in the middle of a section`);
script = script.replace(/__wbg_\w+_[0-9a-f]{16}/g, (text) => short.get(text) ?? text);
const shorter = Buffer.concat(parts);
if (!WebAssembly.validate(shorter)) throw new Error(`${wasmFile} would be no valid wasm any more`);
writeFileSync(wasmFile, shorter);
writeFileSync(scriptFile, script);
