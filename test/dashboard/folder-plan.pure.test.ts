// The plan of a folder that was chosen in the page, whose files are read only as far as the plan asks for them.
import { describe, expect, it } from 'vitest'
import { planFolder } from '../../src/dashboard/screens/new/folder-plan.ts'

const toFiles = (texts: Record<string, string>) =>
  Object.entries(texts).map(([path, text]) => ({ path, file: new File([text], path.split('/').at(-1)!) }))
const plan = (texts: Record<string, string>) => planFolder(toFiles(texts))

describe('the plan of a folder', () => {
  it.each([
    ['Python', { 'requirements.txt': 'flask\ngunicorn', 'app.py': 'from flask import Flask\napp = Flask(__name__)' }],
    ['Go', { 'go.mod': 'module a', 'main.go': 'package main' }],
    ['Node', { 'package.json': '{"scripts": {"start": "node a.js"}}', 'a.js': '' }],
    ['slipway.json', { 'slipway.json': '{"start_command": "./run"}', run: '' }],
  ])('shows what starts it: %s', async (_, texts) => {
    const { refusal, steps } = await plan(texts)
    expect(refusal).toBeNull()
    expect(steps.map(([name]) => name)).toContain('start')
  })

  it('shows the files of a site', async () => {
    expect((await plan({ 'index.html': '' })).steps).toEqual([['files', '.']])
  })

  it.each([
    ['nothing known', { 'notes.txt': '' }, /start_command/],
    ['PHP', { 'index.php': '' }, /PHP/],
    ['a faulty slipway.json', { 'slipway.json': '{' }, /not valid JSON/],
  ])('refuses %s by name', async (_, texts, reason) => {
    expect(await plan(texts)).toMatchObject({ refusal: expect.stringMatching(reason), steps: [] })
  })

  it('reads no file that the plan does not ask for', async () => {
    const [manifest] = toFiles({ 'package.json': '{"scripts": {"start": "node a.js"}}' })
    const large = new File([''], 'large.bin')
    large.text = () => Promise.reject(new Error('was read'))
    expect((await planFolder([manifest!, { path: 'large.bin', file: large }])).refusal).toBeNull()
  })
})
