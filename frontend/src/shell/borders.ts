// The draggable borders of a workspace: between columns, between the groups of a column, and above the bottom panel.

import { splitter } from "../lib/splitter.ts";
import {
  borderOf,
  dockShareOf,
  evened,
  type Group,
  type Layout,
  resizeColumns,
  resizeDock,
  resizeGroups,
} from "../state/layout.ts";

const KEY_STEP = 0.03;

/** The part of a workspace that concerns its sizes. */
export interface Resizable {
  readonly layout: () => Layout;
  /** The default layout. */
  readonly usual: () => Layout;
  readonly resize: (layout: Layout) => void;
}

interface Border {
  readonly label: string;
  readonly isVertical: boolean;
  /** The element whose width or height is divided. */
  readonly frame: () => HTMLElement;
  readonly canMove?: (layout: Layout) => boolean;
  /** Returns a layout with the border moved down or to the right by a share of the frame. */
  readonly moved: (layout: Layout, share: number) => Layout;
  readonly reset: (layout: Layout) => Layout;
  readonly position: (layout: Layout) => number;
}

export function columnBorder(of: Resizable, frame: () => HTMLElement, index: number): HTMLElement {
  return border(of, {
    label: "Column width",
    isVertical: true,
    frame,
    moved: (layout, share) => resizeColumns(layout, index, share),
    reset: (layout) => evened(layout, of.usual()),
    position: ({ columns }) => borderOf(columns, index),
  });
}

export function groupBorder(of: Resizable, frame: () => HTMLElement, column: number, index: number): HTMLElement {
  const groups = ({ columns }: Layout): readonly Group[] => columns[column]!.groups;
  const moved = (layout: Layout, share: number): Layout => resizeGroups(layout, column, index, share);
  return border(of, {
    label: "Group height",
    isVertical: false,
    frame,
    moved,
    reset: (layout) => moved(layout, 0.5 - borderOf(groups(layout).slice(index, index + 2), 0)),
    position: (layout) => borderOf(groups(layout), index),
  });
}

export function dockBorder(of: Resizable, frame: () => HTMLElement): HTMLElement {
  return border(of, {
    label: "Panel height",
    isVertical: false,
    frame,
    canMove: ({ dockOpen }) => dockOpen,
    moved: (layout, share) => resizeDock(layout, dockShareOf(layout) - share),
    reset: (layout) => resizeDock(layout, of.usual().dockShare),
    position: (layout) => 1 - dockShareOf(layout),
  });
}

function border({ layout, resize }: Resizable, of: Border): HTMLElement {
  const { label, isVertical, frame, canMove = () => true, moved, reset, position } = of;
  const share = (pixels: number): number =>
    pixels / Math.max(1, isVertical ? frame().clientWidth : frame().clientHeight);
  return splitter({
    label,
    isVertical,
    className: isVertical ? "insp-splitter" : "insp-splitter insp-splitter-flat",
    start: () => {
      const before = layout();
      return canMove(before) ? (pixels) => resize(moved(before, share(pixels))) : null;
    },
    step: (direction) => canMove(layout()) && resize(moved(layout(), direction * KEY_STEP)),
    reset: () => canMove(layout()) && resize(reset(layout())),
    position: () => position(layout()),
  });
}
