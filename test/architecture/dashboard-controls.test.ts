// A control of the dashboard is disabled in one way: by `unavailable`, which has the reason.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const folder = join(import.meta.dirname, '../../src/dashboard')
const OWNERS = ['parts/button.tsx', 'parts/form.tsx']

it('only the button and the field set the attributes that disable a control', () => {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.tsx'))
  const setters = files.filter(file =>
    /(?<![\w.])(aria-disabled|disabled|readOnly)['"]?(=|:)/.test(readFileSync(join(folder, file), 'utf8')),
  )
  expect(setters.toSorted()).toEqual(OWNERS)
})
