// `npm run trial -- NAME… [--install]`: runs trials by their names, or prints which there are (`--names`: as JSON).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = import.meta.dirname
const NOT_TRIALS = ['run.ts']
const COUNTS = /^(\d+) passed, (\d+) failed, (\d+) skipped$/m

const files = readdirSync(FOLDER).filter(file => /\.(sh|ts)$/.test(file) && !NOT_TRIALS.includes(file))
const nameOf = (file: string) => file.slice(0, file.lastIndexOf('.'))

/** The comment at the start of a trial says what it shows. */
function describe(file: string): string {
  const lines = readFileSync(join(FOLDER, file), 'utf8').split('\n')
  const start = lines[0]!.startsWith('#!') ? 1 : 0
  return lines[start]!.replace(/^(#|\/\/) /, '')
}

if (process.argv.includes('--names')) {
  console.log(JSON.stringify(files.map(nameOf)))
  process.exit(0)
}

function printTrials(): void {
  console.log('npm run trial -- NAME… [--install]\n')
  for (const file of files) console.log(`  ${nameOf(file).padEnd(16)} ${describe(file)}`)
  console.log(`
--install installs what a trial needs. Without it, what is missing is skipped with a reason.
SLIPWAY_TRIALS is the folder for programs and downloads; default: ~/.cache/slipway-trials`)
}

async function runTrial(name: string, options: string[]): Promise<boolean> {
  const file = join(FOLDER, files.find(file => nameOf(file) === name)!)
  const program = file.endsWith('.ts') ? process.execPath : 'bash'
  const trial = spawn(program, [file, ...options], { stdio: ['inherit', 'pipe', 'inherit'] })
  let output = ''
  trial.stdout.setEncoding('utf8').on('data', (text: string) => {
    process.stdout.write(text)
    output += text
  })
  const [status] = await once(trial, 'close')
  // A trial that dies before its last line has shown nothing.
  const hasCounts = COUNTS.test(output)
  if (!hasCounts) console.log(`FAILED  ${name} printed no count`)
  return status === 0 && hasCounts
}

const names = process.argv.slice(2).filter(argument => !argument.startsWith('-'))
const options = process.argv.slice(2).filter(argument => argument.startsWith('-'))
const unknown = names.filter(name => !files.some(file => nameOf(file) === name))
if (unknown.length > 0) {
  console.error(`There is no trial ${unknown.join(', ')}. Choose from: ${files.map(nameOf).join(', ')}.`)
  process.exit(2)
}
if (names.length === 0) printTrials()
let hasFailed = false
for (const name of names) {
  if (names.length > 1) console.log(`\n== ${name}`)
  if (!(await runTrial(name, options))) hasFailed = true
}
process.exitCode = hasFailed ? 1 : 0
