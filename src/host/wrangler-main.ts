// Serves the Worker of `npm run dev` like `wrangler dev`, but without its debugger port, which has no password.
import { unstable_startWorker } from 'wrangler'
import { findPortObstacle } from './ports.ts'

/** Without `watch`, changes to the source need a restart, and nothing looks for them. */
export type WranglerInput = { config: string; envFile: string; persist: string; port: number; watch: boolean }

function fail({ cause, message }: Error): never {
  console.error(cause instanceof Error ? cause.message : message)
  process.exit(1)
}

const { config, envFile, persist, port, watch } = JSON.parse(process.argv[2]!) as WranglerInput
// wrangler would wait for the port silently.
if (await findPortObstacle(port)) fail(new Error(`Address already in use (127.0.0.1:${port}).`))
const worker = await unstable_startWorker({
  config,
  envFiles: [envFile],
  build: { nodejsCompatMode: 'v2' },
  dev: { remote: false, inspector: false, server: { hostname: '127.0.0.1', port }, persist, watch },
}).catch(fail)
await worker.ready
process.send?.('ready')
process.once('SIGTERM', () => void worker.dispose().finally(() => process.exit(0)))
