// An image service: each request makes a picture, and scales it to four sizes in two formats.
const { createHash } = require('node:crypto');
const http = require('node:http');
const sharp = require(process.argv[3]);

const WIDTH = 1200, HEIGHT = 900;
sharp.cache(false);

function picture(seed) {
  const pixels = Buffer.alloc(WIDTH * HEIGHT * 3);
  let state = seed + 1;
  for (let at = 0; at < pixels.length; at++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    pixels[at] = (at >> 8) + (state >> 27);
  }
  return pixels;
}

async function answer(seed) {
  const raw = { raw: { width: WIDTH, height: HEIGHT, channels: 3 } };
  const photo = await sharp(picture(seed), raw).jpeg().toBuffer();
  const sizes = [800, 400, 200, 100].flatMap((width) => [
    sharp(photo).resize(width).jpeg().toBuffer(),
    sharp(photo).resize(width).webp({ effort: 0 }).toBuffer(),
  ]);
  const hash = createHash('sha256');
  (await Promise.all(sizes)).forEach((size) => hash.update(size));
  return hash.digest('hex');
}

http.createServer((request, response) => {
  const seed = Number(new URL(request.url, 'http://x').searchParams.get('n'));
  answer(seed).then((body) => response.end(body), (error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
