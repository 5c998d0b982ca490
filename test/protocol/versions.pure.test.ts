// Versions of agents and command lines that work with a control plane.
import { expect, it } from 'vitest'
import { judgeSkew } from '../../src/protocol/versions.ts'

it.each([
  ['0.2.0', '0.2.0', 'same'],
  ['0.2.0-rc.1', '0.2.0', 'older'],
  ['0.1.4', '0.2.0-rc.1', 'older'],
  ['1.0.0', '0.2.0', 'older'],
  ['0.1.4', '0.3.0', 'too_old'],
  ['1.0.0', '0.3.0', 'too_old'],
  ['0.2.1', '0.2.0', 'newer'],
  ['0.2.0', '0.2.0-rc.9', 'newer'],
  [null, '0.2.0', 'unknown'],
  ['2.0.0', '0.2.0', 'unknown'],
  ['0.2.0', undefined, 'unknown'],
])('version %j is with a control plane of %j: %s', (version, controlPlane, skew) => {
  expect(judgeSkew(version, controlPlane)).toBe(skew)
})
