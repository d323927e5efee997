// fastdp.mjs - what a client draws and sends, for the mechanisms of local reports.
//
//   report(text, values)        the envelope with a report of each value
//   reports(text, values)       the reports alone
//   memo(text, value)           once for each value of a user of Rappor: keep it, secretly
//   fingerprint(text)           of a mechanism
//   Randomness                  words of 64 bits; the tests give fixed ones
//
// `text` is the JSON of a mechanism as the server published it, byte for byte
// (m.to_json()). Written from docs/report_bits.md, whose vectors hold it. Runs in browsers
// and in Node 20 or later, and needs nothing else. One user, one report: what is sent twice
// costs twice. Nothing is promised about time: an engine may compile a selection into a
// branch.

const MASK = (1n << 64n) - 1n;
const LOW = (1n << 32n) - 1n;

/** Words of 64 bits from the system's generator. */
export class Randomness {
  #buffer = new BigUint64Array(128);
  #left = 0;

  /** Returns a uniform BigInt below 2^64. */
  word() {
    if (this.#left === 0) {
      globalThis.crypto.getRandomValues(this.#buffer);
      this.#left = this.#buffer.length;
    }
    this.#left -= 1;
    const word = this.#buffer[this.#left];
    this.#buffer[this.#left] = 0n;
    return word;
  }

  /** Returns whether an event of probability [a, b], that is a/b, happens. */
  happens([a, b]) {
    const scaled = a << 64n;
    if (a < 0n || a > b || scaled % b !== 0n)
      throw new RangeError("a probability must be a multiple of 2^-64 in [0, 1]");
    return this.word() < scaled / b;
  }

  /** Returns one of 0 ... k - 1, uniformly; a power of two takes one word. */
  below(k) {
    if (k === 1) return 0;
    const mask = (1n << BigInt(bitsOf(k - 1))) - 1n;
    for (;;) {
      const drawn = this.word() & mask;
      if (drawn < BigInt(k)) return Number(drawn);
    }
  }

  /** Returns `v` with probability p, else one of the other k - 1, uniformly. */
  respond(p, k, v) {
    if (this.happens(p)) return v;
    const other = this.below(k - 1);
    return other < v ? other : other + 1;
  }
}

// ---- numbers, rows of bits, hashes ------------------------------------------------

function rational(text) {
  const [a, b = "1"] = String(text).split("/");
  return [BigInt(a), BigInt(b)];
}

/** A probability that is a double, as a multiple of 2^-53. */
const real = (t) => [BigInt(Math.floor(t * 2 ** 53)), 1n << 53n];
const complement = ([a, b]) => [b - a, b];
const bitsOf = (n) => (n === 0 ? 0 : BigInt(n).toString(2).length);
const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const hexWord = (word) => word.toString(16).padStart(16, "0");

function fromHex(digits) {
  return Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16));
}

/** Packs booleans, the highest bit of a byte first. */
function packed(bits) {
  const row = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, v) => {
    if (bit) row[v >> 3] |= 128 >> v % 8;
  });
  return row;
}

const bitOf = (row, v) => (row[v >> 3] & (128 >> v % 8)) !== 0;

function littleEndian(bytes) {
  return bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** SipHash-2-4 of bytes under a key of 16 bytes, as a BigInt below 2^64. */
export function siphash(key, bytes) {
  const k = [littleEndian(key.slice(0, 8)), littleEndian(key.slice(8))];
  const v = [
    k[0] ^ 0x736f6d6570736575n,
    k[1] ^ 0x646f72616e646f6dn,
    k[0] ^ 0x6c7967656e657261n,
    k[1] ^ 0x7465646279746573n,
  ];
  const turned = (x, by) => ((x << by) | (x >> (64n - by))) & MASK;
  const add = (i, j, by) => {
    v[i] = (v[i] + v[j]) & MASK;
    v[j] = turned(v[j], by) ^ v[i];
  };
  const rounds = (number) => {
    for (; number > 0; number -= 1) {
      add(0, 1, 13n);
      v[0] = turned(v[0], 32n);
      add(2, 3, 16n);
      add(0, 3, 21n);
      add(2, 1, 17n);
      v[2] = turned(v[2], 32n);
    }
  };
  const padded = new Uint8Array((Math.floor(bytes.length / 8) + 1) * 8);
  padded.set(bytes);
  padded[padded.length - 1] = bytes.length % 256;
  for (let i = 0; i < padded.length; i += 8) {
    const word = littleEndian(padded.slice(i, i + 8));
    v[3] ^= word;
    rounds(2);
    v[0] ^= word;
  }
  v[2] ^= 0xffn;
  rounds(4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/** The 64 bits z of a digest under the hash function of a seed. */
export function hashed(key, seed, digest) {
  const turnedKey = key.map((byte) => 255 - byte);
  const [a, c, b] = [0n, 1n, 2n].map((j) => {
    const bytes = new Uint8Array(16);
    new DataView(bytes.buffer).setBigUint64(0, seed, true);
    new DataView(bytes.buffer).setBigUint64(8, j, true);
    return siphash(turnedKey, bytes);
  });
  return ((a + (digest & LOW)) * (c + (digest >> 32n)) + b) & MASK;
}

/** The bucket of a known category in local hashing. */
export function bucketOf(seed, v, categories, buckets) {
  const kept = BigInt(33 - Math.max(1, bitsOf(categories - 1)));
  const z = (((seed & LOW) * BigInt(v) + (seed >> 32n)) & LOW) >> (32n - kept);
  return Number((z * BigInt(buckets)) >> kept);
}

/** The group of a prefix hunt's seed, and the prefix that it asks of a value. */
export function prefixOf(m, seed, bytes) {
  const last = BigInt(m.groups - 1);
  const group = last === 0n ? 0n : (((seed >> 32n) * 2n * last) >> 32n);
  const first = Math.min(12, m.bits);
  const at = Number(group < last ? group : last);
  const more = last === 0n ? 0 : Math.ceil(((m.bits - first) * at) / (m.groups - 1));
  const length = first + more;
  const prefix = new Uint8Array(Math.ceil(length / 8));
  prefix.set(bytes.slice(0, prefix.length));
  if (length % 8) prefix[prefix.length - 1] &= 255 << (8 - (length % 8));
  return { group: at, length, prefix };
}

/** The filter's bits of a value of Rappor, in a cohort. */
export function filterOf(m, bytes, cohort) {
  const key = fromHex(m.key);
  const digest = siphash(key, bytes);
  const bits = Array(m.bits).fill(false);
  for (let j = 0; j < m.hashes; j += 1) {
    const z = hashed(key, BigInt(cohort * m.hashes + j), digest);
    bits[Number(z >> BigInt(65 - bitsOf(m.bits)))] = true;
  }
  return bits;
}

// ---- values -----------------------------------------------------------------------

/** The number of a value's category; of none, that of `other` or a uniform one. */
function category(m, value, random) {
  const names = Array.isArray(m.categories) ? m.categories : null;
  const count = names === null ? m.categories : names.length;
  const place = (name) => {
    if (names !== null) return names.indexOf(name);
    return Number.isInteger(name) && name >= 0 && name < count ? name : -1;
  };
  let found = place(typeof value === "bigint" ? Number(value) : value);
  if (found < 0 && m.other !== null) found = place(m.other);
  return { count, own: found < 0 ? random.below(count) : found };
}

/** The bytes of a value of an open domain: text, an integer, bytes, or nothing. */
export function bytesOf(value) {
  if (value instanceof Uint8Array) return value;
  if (value === null || value === undefined) return new Uint8Array(0);
  const whole = typeof value === "bigint" || Number.isSafeInteger(value);
  if (whole) return new TextEncoder().encode(value.toString());
  return new TextEncoder().encode(typeof value === "string" ? value : "");
}

/** The numbers of a row; what is no number becomes NaN. */
function rowOf(value, dimension) {
  if (value?.length !== dimension) throw new RangeError(`a value must be ${dimension} numbers`);
  return Array.from(value, Number);
}

// ---- vectors ----------------------------------------------------------------------

/** The 16 words of a ChaCha20 block: key of 8 words, counter below 2^32, nonce 0. */
function chacha(key, counter) {
  const start = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, ...key, counter, 0, 0, 0];
  const x = Uint32Array.from(start);
  const add = (to, plus, turned, by) => {
    x[to] += x[plus];
    const mixed = x[turned] ^ x[to];
    x[turned] = (mixed << by) | (mixed >>> (32 - by));
  };
  const quarter = (a, b, c, d) => {
    add(a, b, d, 16);
    add(c, d, b, 12);
    add(a, b, d, 8);
    add(c, d, b, 7);
  };
  for (let round = 0; round < 10; round += 1) {
    for (let i = 0; i < 4; i += 1) quarter(i, 4 + i, 8 + i, 12 + i);
    for (let i = 0; i < 4; i += 1)
      quarter(i, 4 + ((i + 1) % 4), 8 + ((i + 2) % 4), 12 + ((i + 3) % 4));
  }
  return x.map((word, i) => word + start[i]);
}

/** Phi(-x) / phi(x), for x >= 0: a series near 0, else a continued fraction. */
function mills(x) {
  if (x < 2) {
    let [term, sum] = [x, x];
    for (let k = 3; term > 1e-18 * sum; k += 2) {
      term *= (x * x) / k;
      sum += term;
    }
    return Math.sqrt(Math.PI / 2) * Math.exp((x * x) / 2) - sum;
  }
  let value = x;
  for (let k = 160; k > 0; k -= 1) value = x + k / value;
  return 1 / value;
}

let table = null;

/** The 65,536 sizes of entries of VectorResponse's rows. */
export function sizes() {
  if (table !== null) return table;
  const made = new Int16Array(65536);
  const phi = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  for (const [start, reach] of [[0, 1 / 2], [32768, 1 / 512]]) {
    let x = 6;
    let before = 0;
    for (let i = 1; i <= 32768; i += 1) {
      const chance = (i * reach) / 32768;
      // Newton's method on the logarithm: after a step of 1e-7 the next is below 1e-13.
      for (let step = 1; Math.abs(step) > 1e-7; ) {
        step = Math.log((mills(x) * phi(x)) / chance) * mills(x);
        x += step;
      }
      made[start + i - 1] = Math.round((((phi(x) - before) * 32768) / reach) * 4096);
      before = phi(x);
    }
  }
  // An engine may round exp and log as it likes.
  const sum = made.reduce((hash, size) => (Math.imul(hash, 31) + size) | 0, 0);
  if (sum !== 1183505841) throw new Error("this engine's exp and log are too inexact");
  table = made;
  return table;
}

/** The number of the row of a seed that `rank` others have larger products than. */
export function rowNumber(seed, words, direction, rank) {
  const size = sizes();
  const key = [Number(seed & LOW), Number(seed >> 32n), 0, 0, 0, 0, 0, 0];
  const stream = chacha(key, 0).subarray(0, 8);
  const products = new Float64Array(words); // integers below 2^53
  let blocks = [];
  for (let e = 0; e < words * direction.length; e += 1) {
    const r = e % 256;
    if (r === 0)
      blocks = Array.from({ length: 16 }, (_, i) => chacha(stream, (e / 256) * 16 + i));
    const u = blocks[r % 16][r >> 4];
    const cell = (u & 0x7fffffff) >>> 16;
    const entry = cell < 128 ? size[32768 + ((u & 0x7fffffff) >>> 8)] : size[cell];
    const signed = u >>> 31 ? -entry : entry;
    products[Math.floor(e / direction.length)] += signed * direction[e % direction.length];
  }
  const order = Array.from(products.keys()).sort((i, j) => products[j] - products[i] || i - j);
  return order[rank];
}

function vectorResponse(m, value, random) {
  const x = rowOf(value, m.dimension).map((v) =>
    Number.isNaN(v) ? 0 : Math.min(Math.max(v, -Number.MAX_VALUE), Number.MAX_VALUE),
  );
  const seed = random.word();
  const most = x.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
  const row = most > 0 ? x.map((v) => v / most) : x.map((_, i) => (i === 0 ? 1 : 0));
  const norm = Math.sqrt(row.reduce((sum, v) => sum + v * v, 0));
  const side = random.happens(real((1 + Math.min(1, norm * most)) / 2)) ? 1 : -1;
  const direction = row.map((v) => side * Math.round((v / norm) * 2 ** 24));
  const rank = random.happens(rational(m.p))
    ? random.below(m.near)
    : m.near + random.below(m.words - m.near);
  return { seed: hexWord(seed), value: rowNumber(seed, m.words, direction, rank) };
}

// ---- what is drawn, by mechanism --------------------------------------------------

function hadamard(p, count, own, random) {
  const length = BigInt(bitsOf(count));
  let y = Number(random.word() & ((1n << length) - 1n));
  const flipped = random.happens(complement(p));
  const mask = own + 1;
  let odd = false;
  for (let rest = y & mask; rest !== 0; rest &= rest - 1) odd = !odd;
  if (odd !== flipped) y ^= mask & -mask;
  return y >>> 0;
}

function unary(p, q, count, own, random) {
  const bits = Array.from({ length: count }, (_, v) => random.happens(v === own ? p : q));
  return hex(packed(bits));
}

/** The value's code among those of LocalMean, for a pair of bounds. */
function code(laws, bounds, value, random) {
  const [low, high] = bounds.map((bound) => {
    const [a, b] = rational(bound);
    return Number(a) / Number(b);
  });
  const number = Number(value);
  const x = Number.isNaN(number) ? low : Math.min(Math.max(number, low), high);
  const word = random.word();
  let begin = 0n;
  let codes = 0;
  for (const { codes: M, window: w, inside, outside } of laws) {
    const near = begin + BigInt(w) * inside;
    const end = near + BigInt(M - w) * outside;
    if (word < end) {
      const t = ((x - low) / (high - low)) * (M - w);
      const down = Math.min(Math.floor(t), M - w - 1);
      const s = down + (random.happens(real(t - down)) ? 1 : 0);
      if (word < near) return codes + s + Number((word - begin) / inside);
      const j = Number((word - near) / outside);
      return codes + (j < s ? j : j + w);
    }
    begin = end;
    codes += M;
  }
  // Nobody's words: their codes cancel.
  const [place, left] = [word - begin, (1n << 64n) - begin];
  if (left % 2n === 1n && place === left - 1n) {
    const second = laws.length === 2 && laws[0].codes % 2 === 0;
    const odd = laws[second ? 1 : 0].codes;
    return (second ? laws[0].codes : 0) + (odd - 1) / 2;
  }
  return place % 2n === 0n ? 0 : laws[0].codes - 1;
}

function localMean(m, value, random) {
  const laws = windows(m);
  if (m.dimension === null) return code(laws, m.bounds, value, random);
  const numbers = rowOf(value, m.dimension);
  const all = m.asked === m.dimension;
  const places = new Set(all ? numbers.keys() : []);
  for (let last = m.dimension - m.asked; !all && last < m.dimension; last += 1) {
    const drawn = random.below(last + 1);
    places.add(places.has(drawn) ? last : drawn);
  }
  const asked = [...places].sort((a, b) => a - b);
  const width = m.dimension <= 256 ? 1 : m.dimension <= 65536 ? 2 : 4;
  const row = [];
  for (const at of all ? [] : asked)
    for (let byte = 0; byte < width; byte += 1) row.push((at >>> (8 * byte)) & 255);
  for (const at of asked) {
    const bounds = Array.isArray(m.bounds[0]) ? m.bounds[at] : m.bounds;
    row.push(code(laws, bounds, numbers[at], random));
  }
  return hex(row);
}

/** The words of each code of LocalMean, by member. */
export function windows(m) {
  const [ra, rb] = rational(m.ratio);
  const [sa, sb] = rational(m.share);
  const unit = 1n << 64n;
  const first = (sa << 64n) / sb;
  const totals = m.members.length === 1 ? [unit] : [first, unit - first];
  const laws = m.members.map(([M, w], i) => {
    const [codes, window] = [BigInt(M), BigInt(w)];
    const divisor = window * ra + (codes - window) * rb; // over rb
    const outside = (totals[i] * rb + divisor - 1n) / divisor;
    const inside = (totals[i] - (codes - window) * outside) / window;
    return { codes: M, window: w, inside, outside };
  });
  const used = laws.reduce(
    (sum, l) => sum + BigInt(l.window) * l.inside + BigInt(l.codes - l.window) * l.outside,
    0n,
  );
  if ((unit - used) % 2n === 1n && laws.every((l) => l.codes % 2 === 0))
    laws.find((l) => l.window % 2 === 1).inside -= 1n;
  return laws;
}

const DRAWS = {
  RandomizedResponse(m, value, random) {
    const { count, own } = category(m, value, random);
    return random.respond(rational(m.p), count, own);
  },
  HadamardResponse(m, value, random) {
    const { count, own } = category(m, value, random);
    return hadamard(rational(m.p), count, own, random);
  },
  UnaryEncoding(m, value, random) {
    const { count, own } = category(m, value, random);
    return unary(rational(m.p), rational(m.q), count, own, random);
  },
  LocalHashing(m, value, random) {
    const { count, own } = category(m, value, random);
    const seed = random.word();
    const bucket = bucketOf(seed, own, count, m.buckets);
    return { seed: hexWord(seed), value: random.respond(rational(m.p), m.buckets, bucket) };
  },
  SubsetSelection(m, value, random) {
    const { count, own } = category(m, value, random);
    const has = random.happens(rational(m.p));
    const chosen = new Set();
    while (chosen.size < m.size - (has ? 1 : 0)) {
      const other = random.below(count - 1);
      chosen.add(other < own ? other : other + 1);
    }
    if (has) chosen.add(own);
    return hex(packed(Array.from({ length: count }, (_, v) => chosen.has(v))));
  },
  CountMeanSketch(m, value, random) {
    const key = fromHex(m.key);
    const row = random.below(m.rows);
    const z = hashed(key, BigInt(row), siphash(key, bytesOf(value)));
    const own = Number(z >> BigInt(65 - bitsOf(m.buckets)));
    const p = rational(m.p);
    const sent =
      m.inner === "hadamard"
        ? hadamard(p, m.buckets, own, random)
        : unary(p, complement(p), m.buckets, own, random);
    return { row, value: sent };
  },
  PrefixHunt(m, value, random) {
    const key = fromHex(m.key);
    const seed = random.word();
    const { prefix } = prefixOf(m, seed, bytesOf(value));
    const z = hashed(key, seed, siphash(key, prefix));
    const bucket = Number(((z >> 32n) * BigInt(m.buckets)) >> 32n);
    return { seed: hexWord(seed), value: random.respond(rational(m.p), m.buckets, bucket) };
  },
  Rappor(m, kept, random) {
    const [p, q] = [rational(m.p), rational(m.q)];
    const memo = fromHex(kept.bits);
    const bits = Array.from({ length: m.bits }, (_, v) => random.happens(bitOf(memo, v) ? q : p));
    return { cohort: kept.cohort, bits: hex(packed(bits)) };
  },
  LocalMean: localMean,
  VectorResponse: vectorResponse,
};

// ---- what a page calls ------------------------------------------------------------

function mechanismOf(text) {
  const { format, version, mechanism } = JSON.parse(text);
  if (format !== "fastdp mechanism" || version !== 1)
    throw new RangeError("text must be a mechanism of version 1, as m.to_json() gives it");
  if (!(mechanism.type in DRAWS))
    throw new RangeError(`${mechanism.type} has no client here`);
  return mechanism;
}

/** Returns the memo of a user's value, to be kept secretly: `report` takes it. */
export function memo(text, value, random = new Randomness()) {
  const m = mechanismOf(text);
  if (m.type !== "Rappor") throw new RangeError("only Rappor has a memo");
  const [a, b] = rational(m.f);
  const cohort = random.below(m.cohorts);
  const bits = filterOf(m, bytesOf(value), cohort).map(
    (bit) => bit !== random.happens([a, 2n * b]),
  );
  return { cohort, bits: hex(packed(bits)) };
}

/** Returns a report of each value; for Rappor, of each memo. */
export function reports(text, values, random = new Randomness()) {
  const m = mechanismOf(text);
  return values.map((value) => DRAWS[m.type](m, value, random));
}

/** Returns the first 32 hex digits of SHA-256 of a mechanism's text. */
export async function fingerprint(text) {
  const bytes = new TextEncoder().encode(text);
  const digest = await globalThis.crypto.subtle.digest("SHA-256", bytes);
  return hex(new Uint8Array(digest)).slice(0, 32);
}

/** Returns the envelope to send: JSON text with a report of each value. */
export async function report(text, values) {
  return JSON.stringify({
    format: "fastdp report",
    version: 1,
    content: { mechanism: await fingerprint(text), reports: reports(text, values) },
  });
}
