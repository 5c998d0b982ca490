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
    const [, name, command] = LINE.exec(line.trimEnd()) ?? []
    return name !== undefined && command !== undefined ? [{ name, command }] : []
  })
  const commandOf = (wanted: string) => lines.find(({ name }) => name === wanted)?.command ?? null
  const named = lines.filter(({ name }) => name !== 'web' && name !== 'release')
  const others = named.map(({ name, command }) => ({ name: name.toLowerCase().replaceAll('_', '-'), command }))
  const able = others.filter(({ name }, i) => NAME.test(name) && others.findIndex(one => one.name === name) === i)
  const left = named.filter((_, i) => !able.slice(0, MAX_TYPES).includes(others[i]!)).map(({ name }) => `\`${name}\``)
  return {
    web: commandOf('web'),
    release: commandOf('release'),
    others: able.slice(0, MAX_TYPES),
    warnings:
      left.length === 0
        ? []
        : [`Of the Procfile, ${left.join(', ')} is not started: a name has at most 30 letters, digits and hyphens.`],
  }
}
