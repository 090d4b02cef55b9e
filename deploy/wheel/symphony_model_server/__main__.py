from symphony_model_server import main

main()
