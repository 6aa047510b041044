// graphile-worker for Node.js in its fastest settings.
import { Logger, makeWorkerUtils, run as work } from 'graphile-worker'
import pg from 'pg'
import { payload, run, url } from './protocol.mjs'

const PAGE = 5_000
const silent = new Logger(() => () => {})
const preset = {
  worker: {
    concurrentJobs: 24,
    maxPoolSize: 10,
    completeJobBatchDelay: 0,
    localQueue: { size: 500 }
  }
}
const pool = new pg.Pool({ connectionString: url, max: 40 })
const text = JSON.stringify(payload)

await run({
  pool,
  async migrate () {
    const utils = await makeWorkerUtils({ connectionString: url, logger: silent })
    await utils.migrate()
    await utils.release()
  },
  async fill (jobs) {
    const utils = await makeWorkerUtils({ connectionString: url, logger: silent })
    for (let first = 0; first < jobs; first += PAGE) {
      const length = Math.min(PAGE, jobs - first)
      await utils.addJobs(Array.from({ length }, () => ({ identifier: 'job', payload })))
    }
    await utils.release()
  },
  async start (handled) {
    const taskList = { job: () => { handled.job() } }
    await work({ connectionString: url, taskList, preset, logger: silent, noHandleSignals: true })
  },
  async enqueue (client) {
    await client.query({ name: 'add', text: 'SELECT graphile_worker.add_job($1, $2::json)', values: ['job', text] })
  }
})
