// Runs a program for WASI: node tests/wasi.mjs PROGRAM [ARGUMENT ...]
// With FASTDP_TEST_PRNG=fail the system has no random bytes.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const wasi = new WASI({
  version: "preview1",
  args: process.argv.slice(2),
  env: process.env,
  returnOnExit: true,
});
const imports = wasi.getImportObject();
if (process.env.FASTDP_TEST_PRNG === "fail") {
  imports.wasi_snapshot_preview1.random_get = () => 29; // EIO
}
const module = await readFile(process.argv[2]);
const { instance } = await WebAssembly.instantiate(module, imports);
process.exitCode = wasi.start(instance);
