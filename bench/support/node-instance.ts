// A control plane on Node as `npm start` runs it, in a process of its own whose memory and CPU time can be read.
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { readCpuMs } from './cpu.ts'
import { SETTINGS } from './database.ts'
import { type Cleanup, startProcess } from './processes.ts'
import { makeTempFolder, PROJECT_ROOT } from './workerd.ts'

const START_TIMEOUT_MS = 30_000

export type NodeInstance = {
  url: string
  pid: number
  /** In megabytes: now, and the most since the start. */
  memory(): { now: number; peak: number }
  /** CPU time since the start, of all threads. */
  cpuMs(): number
  end(): Promise<void>
}

export async function startNodeInstance(cleanup: Cleanup, databaseUrl: string): Promise<NodeInstance> {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const { child, broken, end } = startProcess(cleanup, process.execPath, ['src/host/node.ts'], {
    cwd: PROJECT_ROOT,
    env: {
      ...{ PATH: process.env.PATH, PORT: String(port), HOST: '127.0.0.1' },
      ...{ ...SETTINGS, DATABASE_URL: databaseUrl, UPLOADS_DIR: await makeTempFolder(cleanup) },
    },
  })
  await Promise.race([waitUntilReady(url), broken])
  const status = () => readFileSync(`/proc/${child.pid}/status`, 'utf8')
  const megabytes = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(status())![1]) / 1024
  return {
    url,
    pid: child.pid!,
    memory: () => ({ now: megabytes('VmRSS'), peak: megabytes('VmHWM') }),
    cpuMs: () => readCpuMs(child.pid!),
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
