// All commands, in the order of the help. A file is imported when its command runs or its help is shown.
import type { CommandModule } from './declaration.ts'

export type Load = () => Promise<CommandModule>
/** `default`: the command whose name may be left out. */
export type Group = { summary: string; default?: string; commands: Record<string, Load> }

export const SECTIONS: Record<string, Record<string, Load | Group>> = {
  'Deploy:': {
    deploy: () => import('./commands/deploy.ts'),
    plan: () => import('./commands/plan.ts'),
    preview: () => import('./commands/preview.ts'),
    init: () => import('./commands/init.ts'),
    link: () => import('./commands/link.ts'),
    unlink: () => import('./commands/unlink.ts'),
  },
  'Look:': {
    list: () => import('./commands/list.ts'),
    templates: () => import('./commands/templates.ts'),
    status: () => import('./commands/status.ts'),
    explain: () => import('./commands/explain.ts'),
    open: () => import('./commands/open.ts'),
    revisions: () => import('./commands/revisions.ts'),
    diff: () => import('./commands/diff.ts'),
    metrics: () => import('./commands/metrics.ts'),
    logs: () => import('./commands/logs.ts'),
    jobs: () => import('./commands/jobs.ts'),
    exec: () => import('./commands/exec.ts'),
    connect: () => import('./commands/connect.ts'),
  },
  'Change:': {
    protect: () => import('./commands/protect.ts'),
    share: {
      summary: 'share links and bypass tokens of protected deployments',
      commands: {
        link: () => import('./commands/share-link.ts'),
        token: () => import('./commands/share-token.ts'),
        list: () => import('./commands/share-list.ts'),
        revoke: () => import('./commands/share-revoke.ts'),
      },
    },
    scale: () => import('./commands/scale.ts'),
    traffic: () => import('./commands/traffic.ts'),
    rollout: () => import('./commands/rollout.ts'),
    'request-logs': () => import('./commands/request-logs.ts'),
    run: () => import('./commands/run.ts'),
    rollback: () => import('./commands/rollback.ts'),
    interrupt: () => import('./commands/interrupt.ts'),
    release: () => import('./commands/release.ts'),
    delete: () => import('./commands/delete.ts'),
    env: {
      summary: 'the variables of a deployment',
      commands: {
        list: () => import('./commands/env-list.ts'),
        set: () => import('./commands/env-set.ts'),
        unset: () => import('./commands/env-unset.ts'),
        import: () => import('./commands/env-import.ts'),
        edit: () => import('./commands/env-edit.ts'),
      },
    },
    db: {
      summary: 'the database of a deployment',
      default: 'psql',
      commands: {
        psql: () => import('./commands/db-psql.ts'),
        dump: () => import('./commands/db-dump.ts'),
        restore: () => import('./commands/db-restore.ts'),
        reset: () => import('./commands/db-reset.ts'),
      },
    },
    schedules: {
      summary: 'commands that run at certain times',
      commands: {
        list: () => import('./commands/schedules-list.ts'),
        add: () => import('./commands/schedules-add.ts'),
        set: () => import('./commands/schedules-set.ts'),
        run: () => import('./commands/schedules-run.ts'),
        remove: () => import('./commands/schedules-remove.ts'),
      },
    },
    'log-archives': {
      summary: 'files with every line of a log',
      commands: {
        list: () => import('./commands/log-archives-list.ts'),
        download: () => import('./commands/log-archives-download.ts'),
        set: () => import('./commands/log-archives-set.ts'),
      },
    },
    snapshots: {
      summary: 'copies of disks and databases',
      commands: {
        list: () => import('./commands/snapshots-list.ts'),
        take: () => import('./commands/snapshots-take.ts'),
        restore: () => import('./commands/snapshots-restore.ts'),
        delete: () => import('./commands/snapshots-delete.ts'),
        download: () => import('./commands/snapshots-download.ts'),
      },
    },
    hooks: {
      summary: 'secret URLs that deploy',
      commands: {
        list: () => import('./commands/hooks-list.ts'),
        create: () => import('./commands/hooks-create.ts'),
        delete: () => import('./commands/hooks-delete.ts'),
      },
    },
    previews: {
      summary: 'the previews of a deployment',
      commands: {
        list: () => import('./commands/previews-list.ts'),
        approve: () => import('./commands/previews-approve.ts'),
        delete: () => import('./commands/previews-delete.ts'),
      },
    },
  },
  'Connect:': {
    providers: {
      summary: 'OAuth providers of the organization',
      commands: {
        list: () => import('./commands/providers-list.ts'),
        discover: () => import('./commands/providers-discover.ts'),
        delete: () => import('./commands/providers-delete.ts'),
      },
    },
    repos: () => import('./commands/repos.ts'),
    listeners: {
      summary: 'your own machines and clusters, where agents run',
      commands: {
        list: () => import('./commands/listeners-list.ts'),
        create: () => import('./commands/listeners-create.ts'),
        delete: () => import('./commands/listeners-delete.ts'),
        key: () => import('./commands/listeners-key.ts'),
      },
    },
    keys: {
      summary: 'API keys',
      commands: {
        list: () => import('./commands/keys-list.ts'),
        create: () => import('./commands/keys-create.ts'),
        revoke: () => import('./commands/keys-revoke.ts'),
      },
    },
  },
  'Workspace:': {
    events: () => import('./commands/events.ts'),
    audit: {
      summary: 'the audit log of the organization',
      commands: {
        list: () => import('./commands/audit-list.ts'),
        export: () => import('./commands/audit-export.ts'),
      },
    },
    apply: () => import('./commands/apply.ts'),
    export: () => import('./commands/export.ts'),
    alerts: {
      summary: 'rules that notice what is wrong',
      commands: {
        list: () => import('./commands/alerts-list.ts'),
        create: () => import('./commands/alerts-create.ts'),
        set: () => import('./commands/alerts-set.ts'),
        delete: () => import('./commands/alerts-delete.ts'),
        mute: () => import('./commands/alerts-mute.ts'),
        unmute: () => import('./commands/alerts-unmute.ts'),
      },
    },
    incidents: {
      summary: 'what is wrong now',
      commands: {
        list: () => import('./commands/incidents-list.ts'),
        show: () => import('./commands/incidents-show.ts'),
        ack: () => import('./commands/incidents-ack.ts'),
        resolve: () => import('./commands/incidents-resolve.ts'),
      },
    },
    channels: {
      summary: 'places where people are told of incidents and deployments',
      commands: {
        list: () => import('./commands/channels-list.ts'),
        create: () => import('./commands/channels-create.ts'),
        test: () => import('./commands/channels-test.ts'),
        delete: () => import('./commands/channels-delete.ts'),
      },
    },
    webhooks: {
      summary: 'URLs that events are sent to',
      commands: {
        list: () => import('./commands/webhooks-list.ts'),
        create: () => import('./commands/webhooks-create.ts'),
        delete: () => import('./commands/webhooks-delete.ts'),
        ping: () => import('./commands/webhooks-ping.ts'),
        listen: () => import('./commands/webhooks-listen.ts'),
      },
    },
    drains: {
      summary: 'places that logs, metrics, traces and events are sent to',
      commands: {
        list: () => import('./commands/drains-list.ts'),
        create: () => import('./commands/drains-create.ts'),
        test: () => import('./commands/drains-test.ts'),
        delete: () => import('./commands/drains-delete.ts'),
      },
    },
    mcp: () => import('./commands/mcp.ts'),
    api: () => import('./commands/api.ts'),
    doctor: () => import('./commands/doctor.ts'),
  },
  'Sign in:': {
    login: () => import('./commands/login.ts'),
    logout: () => import('./commands/logout.ts'),
    whoami: () => import('./commands/whoami.ts'),
  },
  'Shell:': {
    completion: () => import('./commands/completion.ts'),
    // Not in the help: the scripts of the shells call it.
    __complete: () => import('./commands/complete.ts'),
  },
}
