// The level of a line of an application: the one that it says, else that of its stream.
import { expect, test } from 'vitest'
import { levelOf } from '../../src/agent/system/line-level.ts'

test.each([
  ['Listening on 3000', 'INFO', 'WARNING'],
  ['', 'INFO', 'WARNING'],
  ['INFO:     Uvicorn running on http://127.0.0.1:8000', 'INFO', 'INFO'],
  ['[2026-11-29 12:00:00 +0000] [7] [INFO] Starting gunicorn 23.0', 'INFO', 'INFO'],
  ['[2026-11-29 12:00:00,123: WARNING/MainProcess] no broker', 'WARNING', 'WARNING'],
  ['2026-11-29 12:00:00,123 - shop - ERROR - it broke', 'ERROR', 'ERROR'],
  ['2026/11/29 12:00:00 DEBUG looking', 'DEBUG', 'DEBUG'],
  ['2026/11/29 12:00:00 [error] 12#0: open() failed', 'ERROR', 'ERROR'],
  ['\u001b[33mWARN\u001b[0m slow', 'WARNING', 'WARNING'],
  ['2026-11-29T12:00:00Z  INFO shop: ready', 'INFO', 'INFO'],
  ['time="2026-11-29" level=fatal msg="no disk"', 'CRITICAL', 'CRITICAL'],
  ['error: cannot find module', 'ERROR', 'ERROR'],
  ['FATAL:  the database system is shutting down', 'CRITICAL', 'CRITICAL'],
  ['{"level":30,"msg":"pino"}', 'INFO', 'INFO'],
  ['{"level":50,"msg":"pino"}', 'ERROR', 'ERROR'],
  ['{"severity":"warning","message":"gcp"}', 'WARNING', 'WARNING'],
  ['{"level":{"a":1},"constructor":2}', 'INFO', 'WARNING'],
  ['{"error": not json}', 'INFO', 'WARNING'],
  ['an error was found in the information', 'INFO', 'WARNING'],
  ['GET /ERRORS/INFORMATION 200', 'INFO', 'WARNING'],
  [`${'x'.repeat(100)} ERROR`, 'INFO', 'WARNING'],
  ['constructor: __proto__', 'INFO', 'WARNING'],
])('%j', (line, output, errors) => {
  expect([levelOf(line, false), levelOf(line, true)]).toEqual([output, errors])
})
