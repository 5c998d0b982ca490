// Validates a bill of materials against the schema of CycloneDX, and compares it with the unpacked image:
// LIBRARY BILL FOLDER. Ends with status 1 and the differences.
import * as fs from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Component } from '../../../../deploy/images/bill-of-materials.ts'

const [library = '', file = '', folder = ''] = process.argv.slice(2)
const text = fs.readFileSync(file, 'utf8')
const problems: string[] = []

const { Validation, Spec } = createRequire(join(library, 'package.json'))('@cyclonedx/cyclonedx-library')
const invalid = await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(text)
if (invalid !== null) problems.push(`the schema: ${JSON.stringify(invalid).slice(0, 1000)}`)

const { components } = JSON.parse(text) as { components: Component[] }
const named = new Set(components.filter(({ properties }) => !properties).map(({ purl }) => purl.replace(/\?.*/, '')))
const present = new Set<string>()

const status = join(folder, 'var/lib/dpkg/status.d')
for (const name of fs.readdirSync(status)) {
  const version = /^Version: (.*)$/m.exec(fs.readFileSync(join(status, name), 'utf8'))![1]!
  present.add(`pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}`)
}
for (const path of fs.readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
  if (!/(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(path)) continue
  const { name, version } = JSON.parse(fs.readFileSync(join(folder, path), 'utf8'))
  present.add(`pkg:npm/${name.replace('@', '%40')}@${version}`)
}
for (const purl of present)
  if (!named.has(purl) && !components.some(component => component.purl === purl)) problems.push(`not named: ${purl}`)
for (const purl of named) if (!present.has(purl)) problems.push(`not in the image: ${purl}`)
console.log(problems.length > 0 ? problems.join('\n') : `${components.length} components`)
process.exitCode = problems.length > 0 ? 1 : 0
