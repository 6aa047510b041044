// pg-boss in its fastest settings: a partition of its own; two loops that fetch and complete, or a worker with NOTIFY.
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { payload, run, url } from './protocol.mjs'

const QUEUE = 'job'
const PAGE = 5_000
const FETCHED = 5_000
const LOOPS = 2

const pool = new pg.Pool({ connectionString: url, max: 40 })
const boss = new PgBoss({ connectionString: url, schedule: false, supervise: false, useListenNotify: true })
boss.on('error', (error) => { process.stderr.write(`${error}\n`) })

async function repeat (handled) {
  for (;;) {
    const jobs = await boss.fetch(QUEUE, { batchSize: FETCHED })
    if (jobs.length === 0) break
    for (const _ of jobs) handled.job()
    await boss.complete(QUEUE, jobs.map((job) => job.id))
  }
}

await run({
  pool,
  connect: () => boss.start(),
  async migrate () {
    await boss.start()
    await boss.createQueue(QUEUE, { partition: true, notify: true })
  },
  async fill (jobs) {
    for (let first = 0; first < jobs; first += PAGE) {
      const length = Math.min(PAGE, jobs - first)
      await boss.insert(QUEUE, Array.from({ length }, () => ({ data: payload })))
    }
  },
  async start (handled, scenario) {
    if (scenario === 'drain') {
      Promise.all(Array.from({ length: LOOPS }, () => repeat(handled)))
      return
    }
    const options = { batchSize: FETCHED, pollingIntervalSeconds: 0.5 }
    await boss.work(QUEUE, options, async (jobs) => { for (const _ of jobs) handled.job() })
  },
  async enqueue (client) {
    await boss.send(QUEUE, payload, { db: { executeSql: (text, values) => client.query(text, values) } })
  }
})
