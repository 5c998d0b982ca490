// Sends load by wrk, and reads the CPU time that a proxy takes for each request.
import { execFileSync } from 'node:child_process'
import { readChildCpuMs, readCpuMs } from '../../support/cpu.ts'
import type { Contender } from './proxies.ts'

/** `cpu`: microseconds of a request, of all processes of the proxy. */
export type Load = { rate: number; p99: string; cpu: number; failures: number }

const readNumber = (text: string, pattern: RegExp) => Number(pattern.exec(text)?.[1] ?? 0)

export function loadWith({ url, pids }: Contender, path: string, connections: number, seconds: number): Load {
  const cpuMs = () => pids().reduce((sum, pid) => sum + readCpuMs(pid) + readChildCpuMs(pid), 0)
  const before = cpuMs()
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '30s', '--latency', `${url}${path}`]
  const report = execFileSync('wrk', args).toString()
  const requests = readNumber(report, /(\d+) requests in/)
  const errors = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(report)?.slice(1) ?? []
  const refused = readNumber(report, /Non-2xx or 3xx responses: (\d+)/)
  return {
    rate: readNumber(report, /Requests\/sec:\s+([\d.]+)/),
    p99: /^\s+99%\s+(\S+)/m.exec(report)?.[1] ?? '?',
    cpu: ((cpuMs() - before) * 1000) / Math.max(1, requests),
    failures: refused + errors.reduce((sum, count) => sum + Number(count), 0),
  }
}
