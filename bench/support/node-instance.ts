// A control plane on Node as `npm start` runs it, in a process of its own whose memory and CPU time can be read.
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { SEALING_KEYS } from './database.ts'
import { type Cleanup, startProcess } from './processes.ts'
import { makeTempFolder, PROJECT_ROOT } from './workerd.ts'

/** USER_HZ is 100 on every current Linux. */
const TICK_MS = 10
const START_TIMEOUT_MS = 30_000

export type NodeInstance = {
  url: string
  /** In megabytes: now, and the most since the start. */
  memory(): { now: number; peak: number }
  /** CPU time since the start, of all threads. */
  cpuMs(): number
  end(): Promise<void>
}

export async function startNodeInstance(cleanup: Cleanup, databaseUrl: string): Promise<NodeInstance> {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const { child, broken, end } = startProcess(cleanup, process.execPath, ['src/host/start.ts'], {
    cwd: PROJECT_ROOT,
    env: {
      ...{ PATH: process.env.PATH, PORT: String(port), HOST: '127.0.0.1', PUBLIC_URL: 'http://slipway.test' },
      ...{ DATABASE_URL: databaseUrl, SEALING_KEYS, UPLOADS_DIR: await makeTempFolder(cleanup) },
      ...{ RATE_LIMIT_PER_MINUTE: '0', INGESTION_RATE_LIMIT_PER_MINUTE: '0' },
    },
  })
  await Promise.race([waitUntilReady(url), broken])
  const status = () => readFileSync(`/proc/${child.pid}/status`, 'utf8')
  const megabytes = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(status())![1]) / 1024
  return {
    url,
    memory: () => ({ now: megabytes('VmRSS'), peak: megabytes('VmHWM') }),
    cpuMs() {
      // The second field is the program's name in parentheses, which may contain spaces.
      const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
      return (Number(fields[11]) + Number(fields[12])) * TICK_MS
    },
    end,
  }
}

async function waitUntilReady(url: string): Promise<void> {
  for (let waited = 0; waited < START_TIMEOUT_MS; waited += 100) {
    const response = await fetch(`${url}/readyz`).catch(() => undefined)
    if (response?.ok) return
    await delay(100)
  }
  throw new Error('The control plane does not answer.')
}
