// `npm run chart:readme`: writes the tables in the README.md of the chart, from its values.schema.json and values.yaml.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { load } from 'js-yaml'

export type Schema = {
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  items?: Schema
  $ref?: string
  $defs?: Record<string, Schema>
}

const CHART = join(import.meta.dirname, '../deploy/chart')
const MARK = '<!-- The rest is written by `npm run chart:readme`. -->'

export function renderReadme(readme: string, schema: Schema, values: unknown): string {
  const [head] = readme.split(MARK)
  const sections = Object.entries(schema.properties!).map(([name, property]) =>
    property.properties ? renderSection(name, property, memberOf(values, name)) : '',
  )
  const others = Object.entries(schema.properties!).filter(([, { properties }]) => !properties)
  const rows = others.flatMap(([name, property]) => renderRows(name, property, memberOf(values, name)))
  return `${head}${MARK}\n\n${['## Everything', '', ...renderTable(rows), '', ...sections.filter(Boolean)].join('\n')}`
}

function renderSection(name: string, schema: Schema, values: unknown): string {
  const about = schema.description ? [schema.description, ''] : []
  return [`## ${name}`, '', ...about, ...renderTable(renderRows(name, schema, values)), ''].join('\n')
}

const renderTable = (rows: string[]): string[] => ['| value | default | what it is |', '|---|---|---|', ...rows]

function renderRows(path: string, schema: Schema, values: unknown): string[] {
  if (schema.properties)
    return Object.entries(schema.properties).flatMap(([name, property]) =>
      renderRows(`${path}.${name}`, property, memberOf(values, name)),
    )
  const text = values === undefined || values === '' ? '' : `\`${JSON.stringify(values).replace(/^"(.*)"$/, '$1')}\``
  return [`| \`${path}\` | ${text} | ${schema.description!.replaceAll('|', '\\|')} |`]
}

const memberOf = (values: unknown, name: string): unknown => (values as Record<string, unknown> | undefined)?.[name]

if (import.meta.main) {
  const read = (file: string) => readFileSync(join(CHART, file), 'utf8')
  const schema = JSON.parse(read('values.schema.json'))
  writeFileSync(join(CHART, 'README.md'), renderReadme(read('README.md'), schema, load(read('values.yaml'))))
}
