import assert from "node:assert/strict";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { decodeLines } from "../src/lib/packing.ts";

// The result of `inspector.widgets.saving.packing.lines` for TEXT, in base64. tests/widgets/saving/test_packing.py
// checks it.
const TEXT = "%a.1 = f32[8,64]\n\n  %a.12 = f32[8,64], 007, 0.5, é\n%a.3 = f32[8,7]\n%a.999999999 = f32[0,1234567890]";
const CODED =
  "H4sIAAAAAAACA3NjYGBgBWJBIFZN1GNQsFVIY4hm0GGI5eJSUEAV0VEwMDDXUWDQY9BROLySC1nS0MjYxNTM3MLSIJaBkYmBmQEVMDkINEgAMQMXCwND4T8HNOnJaHwGU3SBcgYGALdGYP2qAAAA";

test("a text is what Python wrote", () => {
  const bytes = gunzipSync(Buffer.from(CODED, "base64"));
  const copy = new Uint8Array(bytes).buffer;
  assert.equal(new TextDecoder().decode(decodeLines(copy)), TEXT);
});
