// `npm run proof`: runs everything that proves the product and is in neither `npm test` nor `npm run test:hosts`, part
// by part, and goes on after a failure. `npm run trial` is the same for trials.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs, styleText } from 'node:util'
import { type Part, parts, ROOT } from './parts.ts'
import { formatCounts } from './support/counts.ts'
import { MACHINE, readCommit } from './support/machine.ts'
import { type PartResult, runPart, stopRunningPart } from './support/run-part.ts'

const USAGE = `npm run proof -- [--only=NAME,NAME] [--install] [--list [--json]] [--limit=MINUTES]
npm run trial -- NAME… [--install]

--install  installs what a part needs; without it, what is missing is skipped with a reason
--only     runs these parts
--list     prints the parts; with --json only their names, as JSON
--limit    stops a part after so many minutes, instead of its own limit
SLIPWAY_TRIALS is the folder for programs and downloads of trials; default: ~/.cache/slipway-trials`

const RESULTS = join(import.meta.dirname, 'results')

const OWN_OPTIONS = ['--trials', '--install', '--list', '--json', '--help']

function readArguments() {
  const given = process.argv.slice(2)
  // Other options of `npm run trial` are for the trial, such as `--from=HEAD` of upgrade.
  const passedOn = given.includes('--trials')
    ? given.filter(argument => argument.startsWith('-') && !OWN_OPTIONS.includes(argument))
    : []
  const { values, positionals } = parseArgs({
    args: given.filter(argument => !passedOn.includes(argument)),
    allowPositionals: true,
    options: {
      only: { type: 'string' },
      trials: { type: 'boolean', default: false },
      install: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
      limit: { type: 'string' },
    },
  })
  const offered = parts.filter(({ name }) => !values.trials || name.startsWith('trial-'))
  const names = [...(values.only?.split(',') ?? []), ...positionals].map(name =>
    values.trials && !name.startsWith('trial-') ? `trial-${name}` : name,
  )
  const unknown = names.filter(name => !offered.some(part => part.name === name))
  const known = offered.map(({ name }) => name).join(', ')
  if (unknown.length > 0) throw new Error(`There is no part ${unknown.join(', ')}. Choose from: ${known}.`)
  const limit = values.limit === undefined ? undefined : Number(values.limit)
  if (limit !== undefined && !(limit > 0)) throw new Error('--limit is not a number of minutes.')
  const selected = names.length > 0 ? offered.filter(({ name }) => names.includes(name)) : offered
  // A trial may change the machine that it runs on, so `npm run trial` runs those that are named.
  return { ...values, passedOn, limit, selected, isListing: values.list || (values.trials && names.length === 0) }
}

function printList(selected: Part[], asJson: boolean): void {
  if (asJson) console.log(JSON.stringify(selected.map(({ name }) => name)))
  else for (const { name, about } of selected) console.log(`${name.padEnd(22)}${about}`)
}

const OUTCOMES = {
  FAILED: 'red',
  passed: 'green',
  skipped: 'yellow',
} as const
const outcomeOf = ({ error, passed }: PartResult): keyof typeof OUTCOMES =>
  error ? 'FAILED' : passed > 0 ? 'passed' : 'skipped'

function formatRow(result: PartResult): string {
  const { name, passed, failed, skipped, seconds, error, reasons } = result
  const outcome = outcomeOf(result)
  const cells = [passed, failed, skipped, seconds].map(cell => `${cell}`.padStart(8))
  const why = error ?? reasons[0] ?? ''
  return `${styleText(OUTCOMES[outcome], outcome.padEnd(8))} ${name.padEnd(22)}${cells.join('')}  ${why}`
}
const HEADING = `${''.padEnd(31)}${['passed', 'failed', 'skipped', 'seconds'].map(cell => cell.padStart(8)).join('')}`

async function main(): Promise<void> {
  const { selected, passedOn, isListing, json, install, limit, help } = readArguments()
  if (help) return console.log(USAGE)
  if (isListing) return printList(selected, json)
  mkdirSync(RESULTS, { recursive: true })
  const results: PartResult[] = []
  const about = { at: new Date().toISOString(), commit: readCommit(), machine: MACHINE, node: process.version }
  const isAlone = selected.length === 1
  for (const { command, ...rest } of selected) {
    const part = { ...rest, command: [...command, ...passedOn] }
    const logFile = join(RESULTS, `${part.name}.log`)
    const minutes = limit ?? part.minutes
    const result = await runPart(part, { isInstalling: install, minutes, logFile, isShown: isAlone })
    results.push(result)
    // Written after each, so that an interrupted run keeps what it has.
    writeFileSync(join(RESULTS, 'proof.json'), `${JSON.stringify({ ...about, parts: results }, null, 2)}\n`)
    console.log(formatRow(result))
    if (result.error && !isAlone) console.log(`         ${logFile.slice(ROOT.length + 1)}`)
  }
  console.log(`\n${HEADING}`)
  for (const result of results) console.log(formatRow(result))
  const sum = (count: 'passed' | 'failed' | 'skipped') => results.reduce((total, result) => total + result[count], 0)
  // A part may fail without a count.
  const failed = Math.max(sum('failed'), results.filter(({ error }) => error).length)
  console.log(`\n${formatCounts({ passed: sum('passed'), failed, skipped: sum('skipped') })}`)
  process.exitCode = failed > 0 ? 1 : 0
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    stopRunningPart()
    process.exit(130)
  })
try {
  await main()
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 2
}
