from kappo.cli import main

main()
