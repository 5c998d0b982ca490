// The writer of a drain and its receiver are killed in turns, and what arrived is counted.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { DrainReport } from '../../../../src/protocol/drains.schema.ts'
import { check, note, optionOf } from '../../support/trial.ts'

const WRITER = join(import.meta.dirname, 'writer.ts')
const KILLS = Number(optionOf('kills') ?? 10)
export const work = mkdtempSync(join(tmpdir(), 'slipway-drains-'))
const children = new Set<ChildProcess>()

export function start(program: string, args: string[], env: Record<string, string> = {}): ChildProcess {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] })
  children.add(child)
  return child
}
export async function kill(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  children.delete(child)
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill(signal)
  await once(child, 'exit')
}

type Told = { written: number; cpu_ms: number; report?: DrainReport }
export type Target = {
  folder: string
  kind: string
  url: string
  id: string
  signal?: 'logs' | 'metrics'
  epoch?: number
}

/** The agent's drains in a process. `last` is what it told last. */
export function startWriter(target: Target, from: number, rate: number, seconds: number, env: Record<string, string>) {
  const options = JSON.stringify({ ...target, from, rate, seconds })
  const child = start(process.execPath, [WRITER, options], env)
  const writer = { child, last: { written: from, cpu_ms: 0 } as Told }
  createInterface({ input: child.stdout! }).on('line', line => {
    writer.last = JSON.parse(line)
  })
  return writer
}

export async function waitFor(isTrue: () => boolean, seconds: number): Promise<boolean> {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await delay(50)) if (isTrue()) return true
  return false
}

/** Counts the arrivals of each line. */
export function countArrivals(file: string): Map<number, number> {
  const counts = new Map<number, number>()
  if (!existsSync(file)) return counts
  for (const [, number] of readFileSync(file, 'utf8').matchAll(/\bline (\d+) x/g))
    counts.set(Number(number), (counts.get(Number(number)) ?? 0) + 1)
  return counts
}

type Receiver = {
  start(): ChildProcess | Promise<ChildProcess>
  /** The arrivals of each number. `isAsked`: the receiver has to run for that. */
  count(): Map<number, number> | Promise<Map<number, number>>
  isAsked?: boolean
  env?: Record<string, string>
  rate?: number
  /** It gives no answers, so what it had in memory when it was killed is lost. */
  mayLose?: boolean
}

/** Kills the writer and the receiver in turns, then waits until nothing waits any more. */
export async function killBoth(name: string, target: Target, of: Receiver): Promise<void> {
  const { env = {}, rate = 2000, isAsked = false, mayLose = false } = of
  let receiver = await of.start()
  let [from, promised] = [0, [] as [number, number][]]
  for (let i = 0; i < KILLS; i++) {
    const writer = startWriter(target, from, rate, 3600, env)
    await waitFor(() => writer.last.written > from, 20)
    await delay(300 + 100 * (i % 5))
    await kill(receiver)
    await delay(200)
    if (i % 2) receiver = await of.start()
    await kill(writer.child)
    promised.push([from, writer.last.written])
    // Lines that were not on the disk yet have other numbers than those to come.
    from = writer.last.written + 10_000
    if (i % 2 === 0) receiver = await of.start()
  }
  const last = startWriter(target, from, 0, 0, env)
  const isEmpty = await waitFor(() => last.last.report !== undefined && last.last.report.waiting === 0, 90)
  const { sent = 0, dropped = 0, error } = last.last.report ?? {}
  await kill(last.child)
  await delay(1000)
  const asked = isAsked ? await of.count() : undefined
  await kill(receiver, 'SIGTERM')
  const counts = asked ?? (await of.count())
  let [total, lost] = [0, 0]
  for (const [first, end] of promised)
    for (let number = first; number < end; number++) {
      total++
      if (!counts.has(number)) lost++
    }
  const twice = [...counts.values()].filter(count => count > 1).length
  note(`${name}: ${KILLS} kills of each; ${total} on the disk, ${lost} lost, ${twice} twice; sent ${sent}`)
  if (error) note(`${name}: ${error}`)
  check(`${name}: the buffer is empty in the end`, isEmpty)
  if (!mayLose) check(`${name}: nothing that was on the disk is lost`, lost === 0 && total > 0, `${lost} of ${total}`)
  check(`${name}: none is counted as dropped`, dropped === 0, String(dropped))
}

/** Call it at the end of the trial. */
export async function endAll(): Promise<void> {
  for (const child of children) await kill(child)
  rmSync(work, { recursive: true, force: true })
}
