"""What a run amounts to: totals, tables, plots and pages made from journals."""
