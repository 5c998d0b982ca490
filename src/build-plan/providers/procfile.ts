// Procfile: a line for each type of process. `web` listens on PORT, and `release` runs once before it.
import type { ProcessType } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'

const LINE = /^([A-Za-z0-9_-]+):[ \t]*(\S.*)$/
const NAME = /^[a-z](?:[a-z0-9-]{0,28}[a-z0-9])?$/
const MAX_TYPES = 10

type Procfile = {
  web: string | null
  release: string | null
  /** They run beside `web`, or without it. */
  others: ProcessType[]
  warnings: string[]
}

export function readProcfile(app: Folder): Procfile {
  const lines = (app.read('Procfile') ?? '').split(/\r?\n/).flatMap(line => {
    const [, written, command] = LINE.exec(line.trimEnd()) ?? []
    if (written === undefined || command === undefined) return []
    return [{ written, name: written.toLowerCase().replaceAll('_', '-'), command }]
  })
  const commandOf = (wanted: string) => lines.find(({ name }) => name === wanted)?.command ?? null
  const named = lines.filter(({ name }) => name !== 'web' && name !== 'release')
  const others = named
    .filter(({ name }, i) => NAME.test(name) && named.findIndex(one => one.name === name) === i)
    .slice(0, MAX_TYPES)
  const left = named.filter(line => !others.includes(line)).map(({ written }) => `\`${written}\``)
  return {
    web: commandOf('web'),
    release: commandOf('release'),
    others: others.map(({ name, command }) => ({ name, command })),
    warnings:
      left.length === 0
        ? []
        : [`Of the Procfile, ${left.join(', ')} is not started: a name has at most 30 letters, digits and hyphens.`],
  }
}
