// A table whose rows lead on: on a phone each row is a block of lines, with the first and the last cell on the first.
import type { ComponentChildren, Ref } from 'preact'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import styles from './table.module.css'
import { ROLES } from './table-roles.ts'

export type Column = {
  label: string
  /** Such as `30%` or `96`. Columns without one share the rest. */
  width?: string
  /** Of the last column: numbers and ages. */
  isEnd?: boolean
  /** Sorts by this column, or turns the order round. */
  onSort?: () => void
  sorted?: 'ascending' | 'descending' | undefined
}
type TableProps = {
  caption: string
  columns: Column[]
  children: ComponentChildren
  /** What is shown belongs to an earlier filter. */
  isOld?: boolean
  tableRef?: Ref<HTMLTableElement> | undefined
}
export const Table = ({ caption, columns, children, isOld = false, tableRef }: TableProps) => (
  <table {...ROLES.table} class={`${styles.table} ${isOld ? styles.old : ''}`} {...(tableRef && { ref: tableRef })}>
    <caption class={styles.unseen}>{caption}</caption>
    <colgroup>
      {columns.map(({ label, width }) => (
        <col key={label} width={width} />
      ))}
    </colgroup>
    <thead>
      <tr>
        {columns.map(({ label, isEnd, onSort, sorted }) => (
          <th key={label} scope="col" class={isEnd ? styles.end : undefined} aria-sort={sorted}>
            {onSort ? (
              <button type="button" class={styles.sort} onClick={onSort}>
                {label}
                {sorted && <Icon name={sorted === 'ascending' ? 'up' : 'down'} />}
              </button>
            ) : (
              label
            )}
          </th>
        ))}
      </tr>
    </thead>
    <tbody {...ROLES.group}>{children}</tbody>
  </table>
)

/** Its link or button with `data-row` covers the whole row. */
export const Row = ({ children }: { children: ComponentChildren }) => (
  <tr class={styles.row} {...ROLES.row}>
    {children}
  </tr>
)

type CellProps = {
  children?: ComponentChildren
  /** A second, smaller line. */
  detail?: ComponentChildren
  icon?: ComponentChildren
  isEnd?: boolean
  /** Left out on a phone. */
  isWideOnly?: boolean
}
export const Cell = ({ children, detail, icon, isEnd = false, isWideOnly = false }: CellProps) => (
  <td {...ROLES.cell} class={[isEnd ? styles.end : '', isWideOnly ? styles.wideOnly : ''].join(' ')}>
    <div class={icon ? styles.marked : undefined}>
      {icon}
      <div class={styles.line}>{children}</div>
      {detail && <div class={styles.detail}>{detail}</div>}
    </div>
  </td>
)

/** The class of the link or button that opens the row. */
export const rowLink = styles.link

export const More = ({ isBusy, onMore }: { isBusy: boolean; onMore: () => void }) => (
  <div class={styles.more}>
    <Button busy={isBusy} onClick={onMore}>
      Show more
    </Button>
  </div>
)
