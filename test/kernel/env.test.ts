import { describe, expect, it } from 'vitest'
import { readConfig, SettingsError } from '../../src/env.ts'
import { lines, SEALING_KEYS, send, startApp } from '../support/app.ts'

const whole = { DATABASE_URL: 'postgres://user@localhost/slipway', SEALING_KEYS }

function refusal(settings: Record<string, unknown>): string {
  try {
    readConfig({ ...whole, ...settings })
  } catch (error) {
    if (error instanceof SettingsError) return error.message
    throw error
  }
  return ''
}

describe('settings', () => {
  it('may be left at what they are when not given', () => {
    const { database, corsOrigins, rateLimit, instanceAdmins, deprecations } = readConfig(whole)
    expect(database).toEqual({ url: whole.DATABASE_URL, gateway: undefined })
    expect({ corsOrigins, rateLimit, instanceAdmins, deprecations }).toEqual({
      ...{ corsOrigins: ['*'], rateLimit: 1200 },
      ...{ instanceAdmins: [], deprecations: [] },
    })
  })

  it.each<[string, unknown]>([
    ['DATABASE_URL', undefined],
    ['DATABASE_URL', ''],
    ['DATABASE_URL', 'mysql://localhost/x'],
    ['DATABASE_URL', 'postgres://'],
    ['DATABASE_GATEWAY_URL', 'localhost'],
    ['SEALING_KEYS', undefined],
    ['SEALING_KEYS', 'first'],
    ['SEALING_KEYS', 'first:short'],
    ['SEALING_KEYS', `${SEALING_KEYS},`],
    ['SEALING_KEYS', `${SEALING_KEYS};${SEALING_KEYS}`],
    ['SEALING_KEYS', SEALING_KEYS.replace('first', 'First.1')],
    ['SEALING_KEYS', `${SEALING_KEYS},${SEALING_KEYS}`],
    ['CORS_ORIGINS', 'example.com'],
    ['CORS_ORIGINS', 'https://example.com/'],
    ['PUBLIC_URL', 'slipway.example.com'],
    ['PUBLIC_URL', 'https://example.com/api'],
    ['PUBLIC_URL', 'ftp://example.com'],
    ['ALLOW_LOOPBACK', 'yes'],
    ['ALLOW_LOOPBACK', '1'],
    ['RATE_LIMIT_PER_MINUTE', '-1'],
    ['RATE_LIMIT_PER_MINUTE', '1.5'],
    ['RATE_LIMIT_PER_MINUTE', 'many'],
    ['RATE_LIMIT_PER_MINUTE', '3000000000'],
  ])('%s is refused by name as %j, without being repeated', (name, value) => {
    const message = refusal({ [name]: value })
    expect(message).toContain(name)
    for (const other of ['DATABASE_URL', 'SEALING_KEYS'].filter(one => one !== name))
      expect(message).not.toContain(other)
    expect(message).not.toContain(SEALING_KEYS.slice(10))
  })

  it('keep foreign servers on this machine out of reach, unless it is asked for', () => {
    const allowed = ['', 'false', 'true'].map(ALLOW_LOOPBACK => readConfig({ ...whole, ALLOW_LOOPBACK }).allowLoopback)
    expect([readConfig(whole).allowLoopback, ...allowed]).toEqual([false, false, false, true])
  })

  it('are all named when several are broken', () => {
    const message = refusal({ DATABASE_URL: undefined, SEALING_KEYS: 'x', RATE_LIMIT_PER_MINUTE: 'x' })
    for (const name of ['DATABASE_URL', 'SEALING_KEYS', 'RATE_LIMIT_PER_MINUTE']) expect(message).toContain(name)
  })

  it('keep several sealing keys in their order', () => {
    const second = SEALING_KEYS.replace('first', 'second')
    expect(readConfig({ ...whole, SEALING_KEYS: `${second},${SEALING_KEYS}` }).sealingKeys.map(([kid]) => kid)).toEqual(
      ['second', 'first'],
    )
  })

  it('know the instance’s admins by the new name and the old', () => {
    const { instanceAdmins } = readConfig({
      ...{ ...whole, INSTANCE_ADMIN_EMAILS: 'Ada@example.com, , grace@example.com' },
      USAGE_EXPORT_ADMIN_EMAILS: 'OLD@example.com',
    })
    expect(instanceAdmins).toEqual(['ada@example.com', 'grace@example.com', 'old@example.com'])
  })

  it('of the old name are announced once, and only where they are set', async () => {
    const announced = () => lines.filter(line => String(line.notice).includes('USAGE_EXPORT_ADMIN_EMAILS')).length
    const before = announced()
    const app = startApp({ settings: { USAGE_EXPORT_ADMIN_EMAILS: 'old@example.com' } })
    for (let i = 0; i < 3; i++) await send('GET', '/healthz', { app })
    expect(announced()).toBe(before + 1)
    await send('GET', '/healthz', { app: startApp({ settings: { INSTANCE_ADMIN_EMAILS: 'new@example.com' } }) })
    expect(announced()).toBe(before + 1)
  })
})
