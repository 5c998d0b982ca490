// Serves an embedded Postgres on the port and in the folder of its arguments, until it is stopped.
import { once } from 'node:events'
import { startPostgres } from '../../../../src/host/embedded-postgres.ts'

const [dataDir, port] = process.argv.slice(2)
const postgres = await startPostgres({ dataDir: dataDir!, port: Number(port), durable: false })
console.log(postgres.url)
const keepAlive = setInterval(() => {}, 60_000)
await once(process, 'SIGTERM')
clearInterval(keepAlive)
await postgres.stop()
