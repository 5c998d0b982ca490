// What the trials in TypeScript share: results and their count, the cache folder, `--install`.
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** Programs and downloads that survive the trial. Never a folder of the repository. */
export const CACHE = process.env.SLIPWAY_TRIALS || join(homedir(), '.cache/slipway-trials')
mkdirSync(CACHE, { recursive: true })

export const isInstalling = process.argv.includes('--install')

const counts = { passed: 0, failed: 0, skipped: 0 }
export const note = (text: string): void => console.log(`        ${text}`)
export function passed(name: string): void {
  counts.passed++
  console.log(`passed  ${name}`)
}
/** The trial goes on, and ends with status 1. */
export function failed(name: string): void {
  counts.failed++
  console.log(`FAILED  ${name}`)
}
export function skipped(reason: string): void {
  counts.skipped++
  console.log(`skipped ${reason}`)
}
export function check(name: string, isTrue: boolean, detail = ''): void {
  if (isTrue) passed(name)
  else failed(detail ? `${name}: ${detail}` : name)
}

/** Runs a trial, prints the counts, and sets the status of the process. */
export async function runTrial(trial: () => Promise<void>): Promise<void> {
  await trial().catch((error: unknown) => failed(error instanceof Error ? (error.stack ?? error.message) : `${error}`))
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`)
  process.exitCode = counts.failed > 0 ? 1 : 0
}

export const hasProgram = (name: string): Promise<boolean> =>
  promisify(execFile)(name, ['--version']).then(
    () => true,
    () => false,
  )

/** Packages of Debian, with `--install` only. */
export function installPackages(...names: string[]): void {
  if (!isInstalling) return
  execFileSync('apt-get', ['update', '-qq'], { stdio: 'inherit' })
  execFileSync('apt-get', ['install', '--yes', '--no-install-recommends', ...names], { stdio: 'inherit' })
}
