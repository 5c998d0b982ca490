// Sleep and scale of processes: from zero to the first answer, requests raced against sleeps, and a rising load.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Artifact } from '../../../src/agent/engine.ts'
import { type ResourceSpec, withDefaults } from '../../../src/protocol/resources.schema.ts'
import {
  closeEngines,
  makeRevisionRef,
  makeServerCode,
  makeUnit,
  openEngine,
  requestRouter,
  writeApplication,
} from '../../support/process-engine.ts'
import { check, hasProgram, note, optionOf, runTrial, skipped } from '../support/trial.ts'

const WAKES = 40
const RACES = { frozen: 700, stopped: 300 }
const PEAK = Number(optionOf('peak') ?? 2_000)
const TARGETS_MS = { frozen: 30, stopped: 300 }
/** Ends the waits of the trial, whatever happens. */
const PATIENCE_MS = 600_000

const GO_CODE = `package main
import ("net/http"; "os")
func main() {
  http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) })
  http.ListenAndServe(":"+os.Getenv("PORT"), nil)
}
`
const FASTAPI_CODE = `import os
from fastapi import FastAPI
import uvicorn
app = FastAPI()
@app.get("/")
def hello(): return "hello"
uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
`
/** Each request takes a while without CPU time, as one that asks a database does. */
const WAITING_CODE = `
const { createServer } = require('node:http')
createServer((req, res) => setTimeout(() => res.end('hello'), 5)).listen(process.env.PORT, undefined, 4096)
`

const root = mkdtempSync(join(tmpdir(), 'slipway-scale-'))
let applications = 0

async function serve(resources: ResourceSpec, make: (root: string) => Artifact, limits = {}) {
  const home = join(root, String(++applications))
  mkdirSync(home)
  const unit = makeUnit(makeRevisionRef(), { resources: withDefaults(resources, 'dev') })
  const id = unit.deployment_id
  const { engine } = await openEngine(home, { limits })
  await engine.start(unit, make(home))
  const look = async () => {
    const { running, url } = await engine.observe(id)
    const { phase, condition } = running[0]!
    const copies = condition?.health.processes?.find(({ name }) => name === 'web')?.copies
    const changes = condition?.incidents.find(({ kind }) => kind === 'scaled')?.count ?? 0
    return { phase, url: url!, state: condition!.health.state, copies, changes }
  }
  const until = async (isSo: (seen: Awaited<ReturnType<typeof look>>) => boolean) => {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await delay(5)) if (isSo(await look())) return
    throw new Error('It took too long.')
  }
  await until(({ phase }) => phase === 'healthy')
  await engine.route(unit)
  return { engine, look, until, url: (await look()).url, pools: () => engine.observe(id) }
}

const node = (code: string) => (home: string) => writeApplication(home, 'app', code)
function go(home: string): Artifact {
  const artifact = writeApplication(home, 'app', '', { start_command: './hello' })
  writeFileSync(join(artifact.location, 'main.go'), GO_CODE)
  execFileSync('go', ['build', '-o', 'hello', 'main.go'], {
    cwd: artifact.location,
    env: { ...process.env, GO111MODULE: 'off' },
  })
  return artifact
}
function fastapi(home: string): Artifact {
  const artifact = writeApplication(home, 'app', '', { start_command: `${PYTHON} main.py` })
  writeFileSync(join(artifact.location, 'main.py'), FASTAPI_CODE)
  return artifact
}
const PYTHON = optionOf('python') ?? 'python3'
const hasFastapi = () => {
  try {
    execFileSync(PYTHON, ['-c', 'import fastapi, uvicorn'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const at = (sorted: number[], share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
const ms = (value: number) => `${value.toFixed(value < 10 ? 1 : 0)} ms`

async function measureWakes(name: string, make: (root: string) => Artifact, targets?: typeof TARGETS_MS) {
  for (const rest of ['frozen', 'stopped'] as const) {
    const frozen_seconds = rest === 'frozen' ? 3_600 : 0
    const one = await serve({ min_scale: 0, idle_seconds: 0.05, frozen_seconds }, make, { scale_ms: 20 })
    const times: number[] = []
    for (let i = 0; i < WAKES; i++) {
      await one.until(({ state }) => state === 'sleeping')
      await delay(150)
      const started = performance.now()
      const { status } = await requestRouter(one.url)
      if (status !== 200) throw new Error(`${name} answers ${status}`)
      times.push(performance.now() - started)
    }
    times.sort((a, b) => a - b)
    note(`${name}, ${rest}: p50 ${ms(at(times, 0.5))}, p99 ${ms(at(times, 0.99))} of ${WAKES}`)
    if (targets) check(`${name} wakes from ${rest} in ${targets[rest]} ms (p50)`, at(times, 0.5) <= targets[rest])
    await closeEngines()
  }
}

async function race(rest: keyof typeof RACES) {
  const frozen_seconds = rest === 'frozen' ? 3_600 : 0
  const one = await serve({ min_scale: 0, idle_seconds: 0.001, frozen_seconds }, node(makeServerCode('hello')), {
    scale_ms: 5,
  })
  const statuses = new Map<number, number>()
  let isOn = true
  const clients = [1, 2, 3].map(async client => {
    for (let i = client; isOn; i++) {
      const { status } = await requestRouter(one.url).catch(() => ({ status: 0 }))
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      await delay((i * 7 * client) % 61)
    }
  })
  await one.until(({ changes }) => changes >= 2 * RACES[rest]).finally(() => (isOn = false))
  await Promise.all(clients)
  const sent = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  const lost = sent - (statuses.get(200) ?? 0)
  note(`${RACES[rest]} sleeps and wakes, ${rest}: ${sent} requests, ${lost} lost`)
  check(`no request is lost in ${RACES[rest]} sleeps (${rest}) and wakes`, lost === 0, JSON.stringify([...statuses]))
  await closeEngines()
}

/** Sends so many requests a second, whatever the answers, from a process of its own. */
const SENDER = `
const http = require('node:http')
const { port, host, stages } = JSON.parse(process.argv[1])
const agent = new http.Agent({ keepAlive: true, maxSockets: 512 })
const counts = {}; const times = []
let open = 0
const send = () => {
  open++
  const started = performance.now()
  const done = status => { open--; counts[status] = (counts[status] ?? 0) + 1; times.push(performance.now() - started) }
  const onAnswer = res => { res.resume(); res.once('end', () => done(res.statusCode)) }
  http.get({ host: '127.0.0.1', port, headers: { host }, agent }, onAnswer).once('error', error => done(error.code))
}
;(async () => {
  for (const [from, to, seconds] of stages) {
    const start = performance.now(); let sent = 0
    for (let t = 0; t < seconds; t = (performance.now() - start) / 1000) {
      const due = from * t + (to - from) * t * t / (2 * seconds)
      while (sent < due) { send(); sent++ }
      await new Promise(resolve => setTimeout(resolve, 5))
    }
  }
  for (let i = 0; open > 0 && i < 600; i++) await new Promise(resolve => setTimeout(resolve, 50))
  times.sort((a, b) => a - b)
  const at = share => times[Math.floor(times.length * share)]
  console.log(JSON.stringify({ counts, left: open, p50: at(0.5), p99: at(0.99) }))
  process.exit()
})()
`

async function raiseLoad() {
  const rule = { min_scale: 1, max_scale: 8, scale_metric: 'concurrency', scale_target: 3 } as const
  const one = await serve(rule, node(WAITING_CODE), { scale_ms: 1_000 })
  const { port, host } = new URL(one.url)
  const stages = [
    [1, 1, 5],
    [1, PEAK, 30],
    [PEAK, PEAK, 20],
    [PEAK, 1, 20],
    [1, 1, 20],
  ]
  const sender = spawn(process.execPath, ['-e', SENDER, JSON.stringify({ port, host, stages })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  sender.stdout.on('data', data => (out += data))
  let sending = true
  const picture: string[] = []
  // The copies end a while after the last request.
  const isOver = async (second: number) => second > 600 || (!sending && (await one.look()).copies!.running === 1)
  const watch = (async () => {
    for (let second = 0; !(await isOver(second)); second += 5) {
      const { running, wanted } = (await one.look()).copies!
      picture.push(`${String(second).padStart(4)} s ${'#'.repeat(running)}${'.'.repeat(Math.max(0, wanted - running))}`)
      await delay(5_000)
    }
    picture.push(`   end ${'#'.repeat((await one.look()).copies!.running)}`)
  })()
  await once(sender, 'close')
  sending = false
  await watch
  for (const line of picture) note(line)
  const { counts, left, p50, p99 } = JSON.parse(out)
  const failures =
    left + Object.entries(counts).reduce((sum, [status, count]) => sum + (status === '200' ? 0 : Number(count)), 0)
  note(`1 to ${PEAK} requests a second and back: ${JSON.stringify(counts)}, p50 ${ms(p50)}, p99 ${ms(p99)}`)
  check('no request fails', failures === 0, JSON.stringify({ counts, left }))
  check(
    'copies rise above 1 and come back to it',
    picture.some(line => line.includes('##')) && /end #$/.test(picture.at(-1)!),
  )
  await closeEngines()
}

await runTrial(async () => {
  try {
    const only = optionOf('only')
    if (!only || only === 'wake') {
      await measureWakes('Node', node(makeServerCode('hello')), TARGETS_MS)
      if (hasProgram('go')) await measureWakes('Go', go, TARGETS_MS)
      else skipped('Go is not installed')
      if (hasFastapi()) await measureWakes('FastAPI', fastapi)
      else skipped('FastAPI is not installed: --python=PATH names a Python that has it')
    }
    if (!only || only === 'race') for (const rest of ['frozen', 'stopped'] as const) await race(rest)
    if (!only || only === 'load') await raiseLoad()
  } finally {
    await closeEngines()
    rmSync(root, { recursive: true, force: true })
  }
})
