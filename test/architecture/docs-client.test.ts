// The generated module of the API pages is fresh.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { generateModule } from '../../scripts/docs-client.ts'

it('the script and style that the API pages serve are built from the current sources (npm run docs:client)', () => {
  const generated = readFileSync(join(import.meta.dirname, '../../src/api-docs/client-bundle.ts'), 'utf8')
  expect(generated).toBe(generateModule())
})
