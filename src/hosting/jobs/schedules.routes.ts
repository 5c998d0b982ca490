// Routes of schedules.
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import * as schedules from './schedules.ts'
import * as s from './schema.ts'

const COMMANDS = 'It also requires the permission `deployments:change-commands`.'

export const scheduleRoutes = slice('Schedules', 'Jobs that run at the times of a cron expression.')
  .get('/v2/schedules', {
    id: 'listWorkspaceSchedules',
    summary: 'List the schedules of all deployments, newest first',
    description: 'Those with `declared` are in the configuration file of the source of their deployment.',
    query: s.WorkspaceScheduleQuery,
    reply: s.ScheduleList,
    verb: schedules.listWorkspaceSchedules,
  })
  .get('/v2/deployments/{deployment_id}/schedules', {
    id: 'listSchedules',
    summary: 'List the schedules of a deployment, newest first',
    description: 'Each has its next due times. Its history are the jobs with its `schedule_id`.',
    params: DeploymentRef,
    query: s.ScheduleQuery,
    reply: s.ScheduleList,
    errors: ['deployment_not_found'],
    verb: schedules.listSchedules,
  })
  .post('/v2/deployments/{deployment_id}/schedules', {
    id: 'createSchedule',
    summary: 'Run a command at the times of a cron expression',
    description: [
      'Where clocks change, a time that does not exist is due at the end of the gap, and one that comes twice is due',
      'the first time. An expression whose hours begin with `*` goes on by real time.',
      COMMANDS,
    ].join(' '),
    params: DeploymentRef,
    body: s.NewSchedule,
    status: 201,
    reply: s.Schedule,
    errors: ['deployment_not_found', 'schedule_name_taken', 'quota_full'],
    location: schedule => `/v2/deployments/${schedule.deployment_id}/schedules/${schedule.id}`,
    verb: schedules.createSchedule,
  })
  .get('/v2/deployments/{deployment_id}/schedules/{schedule_id}', {
    id: 'readSchedule',
    summary: 'Read a schedule',
    description: 'With its next due times. They are none while it is disabled.',
    params: s.ScheduleRef,
    reply: s.Schedule,
    errors: ['schedule_not_found'],
    versioned: true,
    verb: schedules.readSchedule,
  })
  .patch('/v2/deployments/{deployment_id}/schedules/{schedule_id}', {
    id: 'changeSchedule',
    summary: 'Change, disable or enable a schedule',
    description: `Due times while it was disabled are not made up for. Jobs that exist stay as they are. ${COMMANDS}`,
    params: s.ScheduleRef,
    body: s.SchedulePatch,
    reply: s.Schedule,
    errors: ['schedule_not_found', 'schedule_name_taken', 'schedule_declared'],
    versioned: true,
    verb: schedules.changeSchedule,
  })
  .delete('/v2/deployments/{deployment_id}/schedules/{schedule_id}', {
    id: 'deleteSchedule',
    summary: 'Delete a schedule',
    description: 'Its jobs stay: those that wait or run are not cancelled.',
    params: s.ScheduleRef,
    errors: ['schedule_not_found', 'schedule_declared'],
    versioned: true,
    verb: schedules.deleteSchedule,
  })
  .post('/v2/deployments/{deployment_id}/schedules/{schedule_id}/run', {
    id: 'runSchedule',
    summary: 'Run a schedule now',
    description: `Its \`overlap\` holds: with \`skip\`, it is refused while a run has not ended. ${COMMANDS}`,
    params: s.ScheduleRef,
    status: 201,
    reply: s.Job,
    errors: [
      ...(['deployment_not_found', 'schedule_not_found', 'deployment_deleting', 'nothing_serves'] as const),
      ...(['jobs_not_supported', 'job_queue_full', 'schedule_running', 'process_unknown'] as const),
      'process_not_supported',
    ],
    location: job => `/v2/deployments/${job.deployment_id}/jobs/${job.id}`,
    verb: schedules.runSchedule,
  })
