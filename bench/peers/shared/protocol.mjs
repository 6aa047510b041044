// The scenarios of an adapter for Node.js; ../README.md has the protocol.
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

const ORDER = 'INSERT INTO orders (account_id, amount, note) VALUES ($1, $2, $3)'
const NOTE = 'a note of some length, as orders have them'
const WARM = 5
const WARM_LATENCIES = 25
const PAUSE_MS = 3

export const url = process.env.PEER_URL
export const payload = JSON.parse(process.env.PEER_PAYLOAD ?? '{}')

const tell = (line) => process.stdout.write(line + '\n')
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const micros = (nanos) => Number(nanos / 1000n)

async function hear (word) {
  const { value, done } = await lines.next()
  if (done) process.exit(1)
  if (value !== word) throw new Error(`expected ${word}`)
}

// Counts the calls of the handler.
class Handled {
  count = 0
  wanted = Number(process.env.PEER_JOBS ?? 0)
  next = null

  job () {
    this.count += 1
    if (this.count === this.wanted) tell('handled')
    if (this.next) this.next(process.hrtime.bigint())
  }

  call () {
    return new Promise((resolve) => { this.next = resolve })
  }
}

// One business transaction, with a job if `enqueue` is given.
async function transact (pool, account, enqueue) {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query({ name: 'order', text: ORDER, values: [account, 1, NOTE] })
    if (enqueue) await enqueue(client)
    await client.query('COMMIT')
  } finally {
    client.release()
  }
}

async function write (pool, writers, millis, enqueue) {
  const each = async (repeat) => Promise.all(Array.from({ length: writers }, (_, writer) => repeat(writer)))
  await each(async (writer) => {
    for (let number = 0; number < WARM; number += 1) await transact(pool, writer, enqueue)
  })
  let transactions = 0
  const began = process.hrtime.bigint()
  const end = began + BigInt(millis) * 1_000_000n
  await each(async (writer) => {
    while (process.hrtime.bigint() < end) {
      await transact(pool, writer, enqueue)
      transactions += 1
    }
  })
  tell(`committed ${transactions} ${micros(process.hrtime.bigint() - began)}`)
}

async function latencies (peer, handled, wanted) {
  for (let number = 0; number < wanted + WARM_LATENCIES; number += 1) {
    const called = handled.call()
    const client = await peer.pool.connect()
    await client.query('BEGIN')
    await peer.enqueue(client)
    await client.query('COMMIT')
    const committed = process.hrtime.bigint()
    client.release()
    const at = await called
    if (number >= WARM_LATENCIES) tell(`latency ${Math.max(0, micros(at - committed))}`)
    await pause(PAUSE_MS)
  }
  tell('done')
}

// Runs the scenario of the command line. A peer has a pool, migrate, fill, start and enqueue.
export async function run (peer) {
  const [scenario, first, second] = process.argv.slice(2)
  const handled = new Handled()
  const numbers = [Number(first), Number(second)]
  if (scenario === 'fill') {
    await peer.migrate()
    await peer.fill(numbers[0])
    process.exit(0)
  }
  if (scenario === 'latency' || scenario === 'end-to-end') await peer.migrate()
  if (scenario === 'drain') await peer.connect?.()
  await peer.pool.query('SELECT 1')
  tell('ready')
  await hear('go')
  switch (scenario) {
    case 'drain':
      await peer.start(handled, scenario)
      break
    case 'latency':
      await peer.start(handled, scenario)
      await latencies(peer, handled, numbers[0])
      break
    case 'end-to-end':
      await peer.start(handled, scenario)
      await write(peer.pool, ...numbers, (client) => peer.enqueue(client))
      break
    case 'business':
      await write(peer.pool, ...numbers)
      break
    default:
      throw new Error(`unknown scenario ${scenario}`)
  }
  await hear('stop')
  process.exit(0)
}
