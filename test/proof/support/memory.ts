// The memory of a running process, in megabytes.
import { readFileSync } from 'node:fs'

export type Memory = {
  /** All that is in RAM, with the parts of its program that were read. */
  now: number
  /** The most since the start. */
  peak: number
  /** Without files: what a second process of the same program needs again. */
  own: number
}

export function readMemory(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const megabytes = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(status)![1]) / 1024
  return { now: megabytes('VmRSS'), peak: megabytes('VmHWM'), own: megabytes('RssAnon') }
}
