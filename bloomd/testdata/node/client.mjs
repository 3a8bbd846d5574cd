// The commands of node-redis against a server at argv[2], in the protocol argv[3]; it ends with an error at the first
// answer that is not the expected one.
import assert from 'node:assert/strict';
import { createClient } from 'redis';

const client = createClient({ url: `redis://${process.argv[2]}`, RESP: Number(process.argv[3]) });
client.on('error', (err) => { throw err; });
await client.connect();
await client.flushAll();

assert.equal(await client.ping(), 'PONG');
assert.equal(await client.bf.reserve('b', 0.01, 1000, { EXPANSION: 4 }), 'OK');
assert.equal(await client.bf.add('b', 'x'), true);
assert.deepEqual(await client.bf.mAdd('b', ['x', 'y']), [false, true]);
assert.deepEqual(await client.bf.insert('b2', ['x', 'y'], { CAPACITY: 50, ERROR: 0.1, NONSCALING: true }), [true, true]);
assert.equal(await client.bf.exists('b', 'x'), true);
assert.deepEqual(await client.bf.mExists('b', ['x', 'absent']), [true, false]);
assert.equal(await client.bf.card('b'), 2);
const info = await client.bf.info('b');
assert.equal(info.Capacity, 1000);
assert.equal(info['Number of items inserted'], 2);
assert.equal(info['Expansion rate'], 4);
for (let iterator = 0; ;) {
  const { iterator: next, chunk } = await client.withTypeMapping({ 36: Buffer }).bf.scanDump('b', iterator);
  if (next === 0) break;
  assert.equal(await client.bf.loadChunk('copy', next, chunk), 'OK');
  iterator = next;
}
assert.deepEqual(await client.bf.mExists('copy', ['x', 'y', 'absent']), [true, true, false]);
await assert.rejects(client.bf.reserve('b', 0.01, 1000), /item exists/);
await assert.rejects(client.bf.info('none'), /not found/);

assert.equal(await client.cf.reserve('c', 1000, { BUCKETSIZE: 4, MAXITERATIONS: 50, EXPANSION: 2 }), 'OK');
assert.equal(await client.cf.add('c', 'x'), true);
assert.equal(await client.cf.addNX('c', 'x'), false);
assert.deepEqual(await client.cf.insert('c', ['x', 'y']), [true, true]);
assert.equal(await client.cf.exists('c', 'y'), true);
assert.equal(await client.cf.count('c', 'x'), 2);
assert.equal(await client.cf.del('c', 'x'), true);
assert.equal((await client.cf.info('c'))['Number of items deleted'], 1);
await assert.rejects(client.cf.del('none', 'x'), /Not found/);

assert.equal(await client.set('s', 'v'), 'OK');
assert.equal(await client.get('s'), 'v');
await assert.rejects(client.bf.add('s', 'x'), /WRONGTYPE/);
assert.deepEqual(await client.multi().bf.add('b', 'z').bf.exists('b', 'z').exec(), [true, true]);
assert.deepEqual((await client.keys('*')).sort(), ['b', 'b2', 'c', 'copy', 's']);
let seen = 0;
for await (const keys of client.scanIterator()) seen += keys.length;
assert.equal(seen, 5);
assert.equal(await client.type('c'), 'MBbloomCF');
await client.close();
