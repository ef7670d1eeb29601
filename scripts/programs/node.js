// Works through so many turns, on this thread and on two others, and prints sums.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

let state = 7;
const random = (below) => (state = (state * 1103515245 + 12345) % 2147483648) % below;

const words = (count) => {
  const out = [];
  for (let at = 0; at < count; at++) out.push((random(1e9) + 1e9).toString(36));
  return out;
};

const turn = () => {
  const stones = words(2000).map((name, id) => ({ id, name, tags: name.match(/[a-f]+/g) }));
  const text = JSON.stringify(stones);
  const back = JSON.parse(text);
  const packed = zlib.deflateSync(text, { level: 6 });
  const same = zlib.inflateSync(packed).toString() === text && back.length === 2000;
  const buffers = [];
  for (let at = 0; at < 2000; at++) buffers.push(Buffer.alloc(random(16384) + 1, at & 255));
  const hash = crypto.createHash('sha256');
  for (const buffer of buffers) hash.update(buffer.subarray(0, 512));
  hash.update(packed.length > 0 ? text : '');
  const whole = Buffer.concat(buffers).toString('base64').length;
  return { same, whole, digest: hash.digest('hex') };
};

const work = (seed, turns) => {
  state = seed;
  const hash = crypto.createHash('md5');
  for (let at = 0; at < turns; at++) {
    const { same, whole, digest } = turn();
    if (!same) throw new Error('zlib or JSON brought back something else');
    hash.update(`${whole} ${digest}`);
  }
  return hash.digest('hex');
};

if (!isMainThread) {
  parentPort.postMessage(work(workerData.seed, workerData.turns));
} else {
  const turns = Number(process.argv[2]);
  const { Readable, pipeline } = require('stream');
  const piece = Buffer.from(words(20000).join(' '));
  const sum = crypto.createHash('sha1');
  let left = turns;
  const source = new Readable({ read() { this.push(left-- > 0 ? piece : null); } });
  pipeline(source, zlib.createGzip({ level: 1 }), zlib.createGunzip(), sum, (error) => {
    if (error) throw error;
    const workers = [11, 13].map((seed) => new Promise((done, fail) => {
      const worker = new Worker(__filename, { workerData: { seed, turns: turns / 2 } });
      worker.on('message', done).on('error', fail);
    }));
    const own = work(3, turns / 2);
    Promise.all(workers).then((others) => console.log(sum.digest('hex'), own, others.join(' ')));
  });
}
